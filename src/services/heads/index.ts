export { openHeads } from './polled.ts'
export type { HeadsSettings } from './polled.ts'
export type { Heads, HeadsStatus, Settled, View } from './view.ts'
