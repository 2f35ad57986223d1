import { signal } from '@preact/signals'
import { changeQuery, query } from '../router.ts'

// What the page Try it keeps while the tab is open, in memory alone.

/** What is typed, by the name of the field. */
export type Typed = Readonly<Record<string, string>>

/** A call that was sent from this tab. */
interface PastCall {
  readonly id: number
  /** ISO 8601. */
  readonly time: string
  readonly network: string
  readonly method: string
  readonly typed: Typed
  readonly isOk: boolean
  readonly durationMs: number
}

/** By method. */
export const typedByMethod = signal<Readonly<Record<string, Typed>>>({})

/** The form of the method is made anew when another number is here: its fields are filled by code. */
export const formVersion = signal(0)

export const pastCalls = signal<readonly PastCall[]>([])

const maxPastCalls = 20

export const recordCall = (call: Omit<PastCall, 'id'>): void => {
  pastCalls.value = [{ ...call, id: (pastCalls.value[0]?.id ?? 0) + 1 }, ...pastCalls.value].slice(0, maxPastCalls)
}

export const keepTyped = (method: string, typed: Typed): void => {
  typedByMethod.value = { ...typedByMethod.value, [method]: typed }
}

/** Fills the form, also in place of what the address has. */
export const fillForm = (method: string, typed: Typed): void => {
  keepTyped(method, typed)
  if (query.value.has('params')) changeQuery({ params: '' })
  formVersion.value += 1
}

export const showPastCall = ({ network, method, typed }: PastCall): void => {
  changeQuery({ network, method, params: '', key: '' })
  fillForm(method, typed)
}
