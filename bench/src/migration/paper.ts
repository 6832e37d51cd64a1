/** The paper's Table 3: mean absolute error of the forecasts. */
export const PAPER_ERRORS = {
  metadata: { 'ba-esm': 0.53, 'sesm-0.1': 0.68, 'sesm-0.6': 0.69, 'sesm-0.9': 1.05 },
  smallFile: { 'ba-esm': 3.89, 'sesm-0.1': 7.27, 'sesm-0.6': 7.94, 'sesm-0.9': 9.82 },
} as const;
