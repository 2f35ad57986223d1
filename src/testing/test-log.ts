import type { Log, RootLog } from '../services/log.ts'
import type { LogLevel } from '../services/log-settings.ts'

/** A log that stores its lines, also those of its children. */
export class TestLog implements RootLog {
  level: LogLevel = 'info'
  readonly lines: { level: string; fields: object; message: string }[] = []
  debug = (fields: object, message: string) => this.#add('debug', fields, message)
  info = (fields: object, message: string) => this.#add('info', fields, message)
  warn = (fields: object, message: string) => this.#add('warn', fields, message)
  error = (fields: object, message: string) => this.#add('error', fields, message)
  child = (fields: object): Log => this.#childOf(fields)

  #add(level: string, fields: object, message: string): void {
    this.lines.push({ level, fields, message })
  }

  #childOf(common: object): Log {
    const add = (level: string) => (fields: object, message: string) => this.#add(level, { ...common, ...fields }, message)
    return {
      debug: add('debug'),
      info: add('info'),
      warn: add('warn'),
      error: add('error'),
      child: fields => this.#childOf({ ...common, ...fields }),
    }
  }
}
