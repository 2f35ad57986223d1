import { pino } from 'pino'

/** One JSON object a line: fields, then a short message; never an API key, never an upstream's URL. */
export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  /** The same log with these fields on each line. */
  child(fields: object): Log
}

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

/** Writes to stdout synchronously, so that no line is lost when the process ends. */
export const openLog = (level: LogLevel): Log => pino({ level, base: { pid: process.pid } }, pino.destination({ fd: 1, sync: true }))
