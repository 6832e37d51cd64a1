import type { Parameters } from '@stevedore/protocol';
import { SYNC_MAX_DELAY_SECONDS } from './placement.js';
import type { TrackerSettings } from './tracker-options.js';

/**
 * The cluster's settings as storages ask for them. All 26 lines, because a
 * stock storage falls back to defaults of its own for a missing one, and that
 * of the address width is not this tracker's.
 */
export function clusterParameters(settings: TrackerSettings): Parameters {
  return new Map([
    ['use_storage_id', settings.storageIds.used ? '1' : '0'],
    ['id_type_in_filename', settings.storageIds.used ? 'id' : 'ip'],
    ['trust_storage_server_id', '1'],
    ['response_ip_addr_size', settings.addressWidth === 'wide' ? '46' : '16'],
    ['storage_ip_changed_auto_adjust', '1'],
    ['storage_sync_file_max_delay', String(SYNC_MAX_DELAY_SECONDS)],
    ['store_path', settings.storePath === 'most-free' ? '2' : '0'],
    ['reserved_storage_space', `${settings.reservedSpaceMegabytes}MB`],
    ['use_trunk_file', '0'],
    ['slot_min_size', '256'],
    ['slot_max_size', '1048576'],
    ['trunk_alloc_alignment_size', '0'],
    ['trunk_file_size', '67108864'],
    ['trunk_create_file_advance', '0'],
    ['trunk_create_file_time_base', '02:00'],
    ['trunk_create_file_interval', '86400'],
    ['trunk_create_file_space_threshold', '0'],
    ['trunk_init_check_occupying', '0'],
    ['trunk_init_reload_from_binlog', '0'],
    ['trunk_free_space_merge', '1'],
    ['delete_unused_trunk_files', '0'],
    ['trunk_compress_binlog_min_interval', '86400'],
    ['trunk_compress_binlog_interval', '86400'],
    ['trunk_compress_binlog_time_base', '03:00'],
    ['trunk_binlog_max_backups', '7'],
    ['store_slave_file_use_link', '0'],
  ]);
}
