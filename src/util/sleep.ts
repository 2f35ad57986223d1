import type { Clock } from '../services/clock.ts'

/** Resolves after `ms`. */
export const sleep = (clock: Pick<Clock, 'after'>, ms: number): Promise<void> => new Promise(resolve => void clock.after(ms, resolve))
