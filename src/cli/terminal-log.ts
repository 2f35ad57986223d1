import type { DestinationStream } from 'pino'
import { isJsonObject } from '../util/json.ts'
import type { Terminal } from './command.ts'

/** pino's number of the level `error`. */
const minErrorLevel = 50

/** Writes lines of the log for people: level, message, the other fields, and the stack of an error. The events in `except` are not written. */
export const terminalLogDestination = (out: Terminal['out'], except: readonly string[]): DestinationStream => ({
  write(line) {
    const parsed: unknown = JSON.parse(line) // written by pino
    if (!isJsonObject(parsed) || except.includes(String(parsed['event']))) return
    const { level, time: _time, pid: _pid, event: _event, msg, err, ...fields } = parsed
    const details = Object.entries(fields).map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    const stack = isJsonObject(err) ? `\n${String(err['stack'] ?? err['message'])}` : ''
    out(`${Number(level) >= minErrorLevel ? 'Error' : 'Warning'}: ${[String(msg), ...details].join('  ')}${stack}`)
  },
})
