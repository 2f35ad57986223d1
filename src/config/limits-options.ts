import type { ObjectSchema } from '../plugin/options-schema.ts'
import { parseSize } from './formats.ts'
import type { GatewayRule } from './listen-options.ts'

/** `limits` of gateway.yaml. */
export const limitsSchema = {
  type: 'object',
  description: 'Limits on requests of callers, and on the memory of requests and responses.',
  properties: {
    connections: {
      type: 'integer',
      minimum: 1,
      default: 10_000,
      description:
        'Maximum number of open connections of callers, divided among the workers. A process whose ' +
        '`ulimit -n` does not allow as many accepts fewer, and logs so at its start.',
    },
    body: {
      type: 'string',
      format: 'size',
      usual: { min: '1KiB', max: '256MiB' },
      default: '1MiB',
      description: 'Maximum size of the body of an HTTP request.',
    },
    frame: {
      type: 'string',
      format: 'size',
      usual: { min: '1KiB', max: '256MiB' },
      default: '1MiB',
      description: 'Maximum size of a WebSocket message.',
    },
    batch: { type: 'integer', minimum: 1, default: 1000, description: 'Maximum number of calls in one batch.' },
    batchReply: {
      type: 'string',
      format: 'size',
      usual: { min: '64KiB', max: '4GiB' },
      default: '64MiB',
      description: 'Maximum size of the response to a batch.',
    },
    inFlight: {
      type: 'string',
      format: 'size',
      usual: { min: '1MiB', max: '256GiB' },
      default: '512MiB',
      description:
        'Maximum size of everything together that is held for callers, divided among the workers: requests while they arrive, calls in ' +
        'flight, and responses until callers have read them.',
    },
  },
  default: {},
} as const satisfies ObjectSchema

/** Of `limits`, and of `memory`. */
export const positiveSizes: GatewayRule = source =>
  [['memory'], ...['body', 'frame', 'batchReply', 'inFlight'].map(limit => ['limits', limit])].flatMap(path => {
    const text = source.textAt(path)
    if (text === undefined || parseSize(text) !== 0) return []
    return [source.problemAt(path, `${path.join('.')} must be greater than 0, not ${source.describeValueAt(path)}`)]
  })
