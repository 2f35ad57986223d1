import type { Family } from '../services/metrics.ts'

/** What a worker tells the primary. */
export type FromWorker =
  | { readonly kind: 'ready' }
  /** Answers `metrics`. */
  | { readonly kind: 'metrics', readonly id: number, readonly metrics: readonly Family[] }

/** What the primary tells a worker. */
export type FromPrimary =
  | { readonly kind: 'metrics', readonly id: number }
  | { readonly kind: 'stop' }
