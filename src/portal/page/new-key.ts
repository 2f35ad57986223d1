import { signal } from '@preact/signals'
import type { NewKey } from './api.ts'

/** The key that was just created, in memory alone: Keys shows it until it is closed, Try it offers it. */
export const newKey = signal<NewKey | undefined>(undefined)
