/** pino's levels, lowest first. Apart from the log, as reading a configuration does not need pino. */
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

export type LogLevel = (typeof logLevels)[number]

export const isLogLevel = (value: unknown): value is LogLevel => (logLevels as readonly unknown[]).includes(value)
