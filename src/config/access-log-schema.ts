import type { ObjectSchema } from '../plugin/options-schema.ts'
import { accessLogRules } from '../services/access-log.ts'

/** The option `accessLog` of gateway.yaml. */
export const accessLogSchema = {
  type: 'object',
  description: 'One line for each call.',
  properties: {
    file: {
      type: 'string',
      description:
        'Where lines are written: stdout, or a path relative to this file, which is opened anew on SIGUSR2. None by default. Lines are ' +
        'written once a second, or when 64 KiB (to stdout: 4 KiB) have come together.',
      examples: ['stdout', '/var/log/tollgate/access.log'],
    },
    sample: {
      type: 'number',
      minimum: 0,
      maximum: 1,
      default: 1,
      description: 'The share of calls that is logged, from 0 to 1.',
    },
    always: {
      type: 'array',
      items: { type: 'string', enum: accessLogRules },
      default: ['errors', 'slow'],
      description:
        'Calls that are logged whatever `sample` is: errors are calls with a JSON-RPC error, and HTTP statuses of 400 and above; slow ' +
        'are calls that took `slow` or longer.',
    },
    slow: {
      type: 'string',
      format: 'duration',
      usual: { min: '1ms', max: '10m' },
      default: '1s',
      description: 'From this duration on a call is slow.',
    },
  },
  default: {},
} as const satisfies ObjectSchema
