import { pino } from 'pino'
import type { DestinationStream, Logger } from 'pino'

/** pino's levels, lowest first. */
export const logLevels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'] as const

export type LogLevel = (typeof logLevels)[number]

export const isLogLevel = (value: unknown): value is LogLevel => (logLevels as readonly unknown[]).includes(value)

/** One JSON object a line: fields, then a short message; never an API key, never an upstream's URL. */
export interface Log {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
  /** The same log with these fields on each line. */
  child(fields: object): Log
}

/** The log of a process. Its level holds for the children too, also when it is set later. */
export interface RootLog extends Log {
  level: LogLevel
}

/** Writes synchronously, so that no line is lost when the process ends. */
const openStdout = (): DestinationStream => {
  const open = () => {
    const destination = pino.destination({ fd: 1, sync: true, maxLength: maxUnwrittenBytes })
    // The disk is full, or the terminal is closed: the gateway serves on. What could not be written is dropped when it is too long.
    return destination.on('error', () => undefined).on('drop', () => void (stdout = open()))
  }
  let stdout = open()
  return { write: line => void stdout.write(line) }
}

const maxUnwrittenBytes = 65_536

/** Writes to stdout unless a destination is given. */
export const openLog = (level: LogLevel, destination = openStdout()): RootLog => {
  // pino sets the level of a child once, when it is made. Each reload makes new children, one for each plugin; the old ones are freed.
  let children: readonly WeakRef<Logger>[] = []
  const onChild = (child: Logger) => {
    children = [...children.filter(each => each.deref() !== undefined), new WeakRef(child)]
  }
  const root = pino({ level, base: { pid: process.pid }, onChild }, destination)
  return {
    debug: (fields, message) => root.debug(fields, message),
    info: (fields, message) => root.info(fields, message),
    warn: (fields, message) => root.warn(fields, message),
    error: (fields, message) => root.error(fields, message),
    child: fields => root.child(fields),
    get level() {
      return level
    },
    set level(next) {
      level = next
      root.level = next
      for (const child of children) {
        const logger = child.deref()
        if (logger !== undefined) logger.level = next
      }
    },
  }
}
