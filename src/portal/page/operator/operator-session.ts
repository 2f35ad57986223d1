import { signal } from '@preact/signals'
import type { OperatorSession } from '../../operator/operator-reports.ts'
import { get, onSignedOut, recordSignIn } from '../request.ts'
import { endSession, followOtherTabs, hasEnded } from '../session-end.ts'

/** Undefined: not known yet; null: nobody is signed in. */
export const session = signal<OperatorSession | null | undefined>(undefined)

onSignedOut(() => endSession(session))

export const loadSession = async (): Promise<void> => {
  session.value = await get<OperatorSession>('/session')
  recordSignIn()
  hasEnded.value = false
}

followOtherTabs(session, loadSession)
