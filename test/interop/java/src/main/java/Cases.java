import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.zip.CRC32;
import org.csource.common.NameValuePair;
import org.csource.fastdfs.ClientGlobal;
import org.csource.fastdfs.FileInfo;
import org.csource.fastdfs.StorageClient1;
import org.csource.fastdfs.TrackerClient;

/**
 * Takes the Java client through every case: `Cases HOST PORT SLICES MOVED_PORT
 * MOVED`. Prints one JSON text a line: how a case ended, and the files it has left in the storage.
 */
public final class Cases {
  private interface Case {
    void run() throws Exception;
  }

  private static StorageClient1 client;
  private static int seed;

  public static void main(String[] args) throws Exception {
    ClientGlobal.initByTrackers(args[0] + ":" + args[1]);
    client = new StorageClient1(new TrackerClient().getTrackerServer());
    List<String[]> slices = lines(args[2]);

    run("upload", () -> upload(1000));
    run("large", () -> upload(3_000_000));
    run("empty", Cases::empty);
    run("range", Cases::range);
    run("info", Cases::info);
    run("delete", Cases::delete);
    run("append", Cases::append);
    run("modify", Cases::modify);
    run("truncate", Cases::truncate);
    run("regenerate", Cases::regenerate);
    run("slave", Cases::slave);
    run("metadata", Cases::metadata);
    run("merge", Cases::merge);
    run("sliceRead", () -> sliceRead(slices));
    run("sliceRange", () -> sliceRange(slices));
    run("sliceInfo", () -> sliceInfo(slices));
    run("forgedSlice", () -> forgedSlice(slices));

    ClientGlobal.initByTrackers("127.0.0.1:" + args[3]);
    client = new StorageClient1(new TrackerClient().getTrackerServer());
    List<String[]> moved = lines(args[4]);
    run("movedRead", () -> sliceRead(moved));
    run("movedRange", () -> movedRange(moved));
    run("movedInfo", () -> sliceInfo(moved));
    run("movedMetadata", () -> movedMetadata(moved));
    run("movedDelete", () -> movedDelete(moved));
  }

  private static List<String[]> lines(String path) throws Exception {
    List<String[]> lines = new ArrayList<>();
    for (String line : Files.readAllLines(Path.of(path))) lines.add(line.split(" ", 2));
    return lines;
  }

  private static void upload(int size) throws Exception {
    byte[] bytes = bytes(size);
    String id = client.upload_file1(bytes, "jpg", null);
    expectContent(id, bytes);
    keep(id, bytes);
  }

  private static void empty() throws Exception {
    String id = client.upload_file1(new byte[0], "txt", null);
    expect(client.query_file_info1(id).getFileSize() == 0, "its size is not 0");
    keep(id, new byte[0]);
  }

  private static void range() throws Exception {
    byte[] bytes = bytes(5000);
    String id = client.upload_file1(bytes, "bin", null);
    expectSame(client.download_file1(id, 100, 200), Arrays.copyOfRange(bytes, 100, 300));
    expectSame(client.download_file1(id, 4000, 0), Arrays.copyOfRange(bytes, 4000, 5000));
  }

  private static void info() throws Exception {
    byte[] bytes = bytes(4321);
    String id = client.upload_file1(bytes, "bin", null);
    expectInfo(client.query_file_info1(id), bytes);
    expectInfo(client.get_file_info1(id), bytes);
  }

  private static void delete() throws Exception {
    String id = client.upload_file1(bytes(10), "bin", null);
    expect(client.delete_file1(id) == 0, "delete failed");
    expect(client.download_file1(id) == null, "it is still there");
    expect(client.getErrorCode() == 2, "the error is " + client.getErrorCode());
    expect(client.delete_file1(id) == 2, "it was deleted twice");
  }

  private static void append() throws Exception {
    byte[] first = bytes(1000);
    byte[] second = bytes(500_000);
    String id = client.upload_appender_file1(first, "log", null);
    expect(client.append_file1(id, second) == 0, "append failed");
    byte[] all = Arrays.copyOf(first, first.length + second.length);
    System.arraycopy(second, 0, all, first.length, second.length);
    expectContent(id, all);
    expectInfo(client.get_file_info1(id), all);
    keep(id, all);
  }

  private static void modify() throws Exception {
    byte[] bytes = bytes(1000);
    byte[] patch = bytes(100);
    String id = client.upload_appender_file1(bytes, "log", null);
    expect(client.modify_file1(id, 300, patch) == 0, "modify failed");
    System.arraycopy(patch, 0, bytes, 300, patch.length);
    expectContent(id, bytes);
    keep(id, bytes);
  }

  private static void truncate() throws Exception {
    byte[] bytes = bytes(1000);
    String id = client.upload_appender_file1(bytes, "log", null);
    expect(client.truncate_file1(id, 400) == 0, "truncate failed");
    expectContent(id, Arrays.copyOf(bytes, 400));
    keep(id, Arrays.copyOf(bytes, 400));
  }

  private static void regenerate() throws Exception {
    byte[] bytes = bytes(2000);
    String id = client.upload_appender_file1(bytes, "log", null);
    String normal = client.regenerate_appender_filename1(id);
    expect(normal != null && !normal.equals(id), "there is no new id");
    expectContent(normal, bytes);
    expectInfo(client.get_file_info1(normal), bytes);
    expect(client.download_file1(id) == null, "the old id is still there");
    keep(normal, bytes);
  }

  private static void slave() throws Exception {
    String master = client.upload_file1(bytes(100), "jpg", null);
    byte[] bytes = bytes(50);
    String id = client.upload_file1(master, "_150x150", bytes, "jpg", null);
    expect(id.equals(master.replace(".jpg", "_150x150.jpg")), "its id is " + id);
    expectContent(id, bytes);
    keep(id, bytes);
  }

  private static void metadata() throws Exception {
    NameValuePair[] first = {pair("width", "800"), pair("title", "Ærø")};
    String id = client.upload_file1(bytes(10), "jpg", first);
    expectMetadata(id, Map.of("title", "Ærø", "width", "800"));
    client.set_metadata1(id, new NameValuePair[] {pair("only", "this")}, (byte) 'O');
    expectMetadata(id, Map.of("only", "this"));
  }

  private static void merge() throws Exception {
    String id = client.upload_file1(bytes(10), "jpg", new NameValuePair[] {pair("a", "1")});
    client.set_metadata1(id, new NameValuePair[] {pair("b", "2"), pair("a", "3")}, (byte) 'M');
    expectMetadata(id, Map.of("a", "3", "b", "2"));
  }

  private static void sliceRead(List<String[]> slices) throws Exception {
    for (String[] slice : slices) expectContent(slice[0], Files.readAllBytes(Path.of(slice[1])));
  }

  private static void sliceRange(List<String[]> slices) throws Exception {
    for (String[] slice : slices) {
      byte[] bytes = Files.readAllBytes(Path.of(slice[1]));
      expectSame(client.download_file1(slice[0], 100, 50), Arrays.copyOfRange(bytes, 100, 150));
    }
  }

  private static void sliceInfo(List<String[]> slices) throws Exception {
    for (String[] slice : slices) {
      byte[] bytes = Files.readAllBytes(Path.of(slice[1]));
      expectInfo(client.query_file_info1(slice[0]), bytes);
      expectInfo(client.get_file_info1(slice[0]), bytes);
    }
  }

  /** One character of the part that holds the place in the trunk is another one. */
  private static void forgedSlice(List<String[]> slices) throws Exception {
    String id = slices.get(0)[0];
    int at = id.lastIndexOf('.') - 4;
    char other = id.charAt(at) == 'B' ? 'C' : 'B';
    String forged = id.substring(0, at) + other + id.substring(at + 1);
    expect(client.download_file1(forged) == null, "it gave bytes");
  }

  private static void movedRange(List<String[]> files) throws Exception {
    for (String[] file : files) {
      byte[] bytes = Files.readAllBytes(Path.of(file[1]));
      expectSame(client.download_file1(file[0], 5, 20), Arrays.copyOfRange(bytes, 5, 25));
    }
  }

  private static void movedMetadata(List<String[]> files) throws Exception {
    for (int n = 0; n < files.size(); n++) {
      expectMetadata(files.get(n)[0], Map.of("n", String.valueOf(n)));
    }
    String id = files.get(0)[0];
    client.set_metadata1(id, new NameValuePair[] {pair("only", "this")}, (byte) 'O');
    expectMetadata(id, Map.of("only", "this"));
    expectContent(id, Files.readAllBytes(Path.of(files.get(0)[1])));
  }

  private static void movedDelete(List<String[]> files) throws Exception {
    String id = files.get(files.size() - 1)[0];
    expect(client.delete_file1(id) == 0, "delete failed");
    expect(client.download_file1(id) == null, "it is still there");
    expect(client.getErrorCode() == 2, "the error is " + client.getErrorCode());
    expect(client.query_file_info1(id) == null, "it is still known");
  }

  private static void run(String name, Case body) {
    String error = "null";
    try {
      body.run();
    } catch (Throwable problem) {
      error = quoted(problem.toString());
    }
    System.out.println("{\"case\":" + quoted(name) + ",\"error\":" + error + "}");
  }

  private static void keep(String id, byte[] bytes) throws Exception {
    StringBuilder hex = new StringBuilder();
    for (byte each : MessageDigest.getInstance("SHA-256").digest(bytes)) {
      hex.append(String.format("%02x", each));
    }
    System.out.println("{\"kept\":" + quoted(id) + ",\"sha256\":\"" + hex + "\"}");
  }

  private static void expectContent(String id, byte[] bytes) throws Exception {
    expect(id != null, "there is no id, status " + client.getErrorCode());
    expectSame(client.download_file1(id), bytes);
  }

  private static void expectSame(byte[] actual, byte[] expected) {
    expect(actual != null, "there are no bytes, status " + client.getErrorCode());
    expect(Arrays.equals(actual, expected), "the bytes differ");
  }

  private static void expectInfo(FileInfo info, byte[] bytes) {
    expect(info != null, "there is no info, status " + client.getErrorCode());
    CRC32 crc = new CRC32();
    crc.update(bytes);
    expect(info.getFileSize() == bytes.length, "its size is " + info.getFileSize());
    expect((int) info.getCrc32() == (int) crc.getValue(), "its CRC-32 is " + info.getCrc32());
  }

  private static void expectMetadata(String id, Map<String, String> expected) throws Exception {
    Map<String, String> actual = new TreeMap<>();
    for (NameValuePair each : client.get_metadata1(id)) actual.put(each.getName(), each.getValue());
    expect(actual.equals(expected), "the metadata is " + actual);
  }

  private static void expect(boolean holds, String otherwise) {
    if (!holds) throw new AssertionError(otherwise);
  }

  private static NameValuePair pair(String name, String value) {
    return new NameValuePair(name, value);
  }

  /** Bytes that differ from call to call. */
  private static byte[] bytes(int size) {
    byte[] bytes = new byte[size];
    new java.util.Random(++seed).nextBytes(bytes);
    return bytes;
  }

  private static String quoted(String text) {
    return '"' + text.replace("\\", "\\\\").replace("\"", "\\\"").replaceAll("\\s", " ") + '"';
  }
}
