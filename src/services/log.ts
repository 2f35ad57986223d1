import { pino } from 'pino'
import type { DestinationStream, Logger } from 'pino'
import { toSourceLines } from '../runtime/source-lines.ts'
import { systemClock } from './clock.ts'
import { BoundedLineWriter } from './line-writer.ts'
import type { LogLevel } from './log-settings.ts'

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

/** Standard output, which all logs of the process share: their lines stay in order. Opened with the first line. */
let stdout: BoundedLineWriter | undefined

const openStdout = (): BoundedLineWriter => {
  const writer = new BoundedLineWriter({
    destination: 'stdout',
    clock: systemClock,
    onRecovered(lines) {
      if (lines > 0) log.error({ event: 'log-lines-dropped', lines }, `${lines} lines were dropped: standard output was not read`)
    },
  })
  const log = openLog('error', writer)
  process.once('exit', () => writer.closeSync())
  return writer
}

const stdoutStream: DestinationStream = { write: line => (stdout ??= openStdout()).write(line) }

/** Writes to stdout unless a destination is given. */
export const openLog = (level: LogLevel, destination: DestinationStream = stdoutStream): RootLog => {
  // pino sets the level of a child once, when it is made. Each reload makes new children, one for each plugin; the old ones are freed.
  let children: WeakRef<Logger>[] = []
  let maxChildren = 100
  const onChild = (child: Logger) => {
    // Hundreds of networks have thousands of children: to look for freed ones at each would take seconds of a start.
    if (children.length >= maxChildren) {
      children = children.filter(each => each.deref() !== undefined)
      maxChildren = 2 * children.length + 100
    }
    children.push(new WeakRef(child))
  }
  const root = pino({ level, base: { pid: process.pid }, serializers: { stack: formatStack }, onChild }, destination)
  // The children inherit the listener.
  root.on('level-change', (next, _value, _previous, _previousValue, changed) => {
    if (changed !== root) return
    for (const child of children) {
      const logger = child.deref()
      if (logger !== undefined) logger.level = next
    }
  })
  return root as RootLog // `level` is set to levels of pino alone
}

const formatStack = (stack: unknown): unknown => (typeof stack === 'string' ? toSourceLines(stack) : stack)
