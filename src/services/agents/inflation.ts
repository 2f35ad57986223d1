import type { Transform } from 'node:stream'
import type { Hearer, Trip } from './lines.ts'

/** Inflates an answer as it comes, off the event loop and no faster than it is taken. */
export class Inflation {
  readonly #inflater: Transform
  readonly #trip: Trip

  constructor(inflater: Transform, trip: Trip, hearer: Omit<Hearer, 'head'>) {
    this.#inflater = inflater
    this.#trip = trip
    inflater.on('data', (bytes: Buffer) => hearer.chunk(bytes))
    inflater.on('end', () => hearer.end())
    inflater.on('error', error => hearer.fault(error))
    inflater.on('drain', () => trip.resume())
  }

  write(bytes: Buffer): void {
    if (!this.#inflater.write(bytes)) this.#trip.pause()
  }

  end(): void {
    this.#inflater.end()
  }

  stop(): void {
    this.#inflater.destroy()
  }
}
