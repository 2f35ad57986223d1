import type { SignInChoiceJson } from '../../people/proven-addresses.ts'
import { Notice } from '../components/controls.tsx'
import { Brand } from '../components/shell.tsx'
import { formatTime } from '../format.ts'
import { signedOutTexts } from './signed-out-texts.ts'

const text = signedOutTexts.chooseAccount

interface ChooseAccountProps {
  readonly choice: SignInChoiceJson
  readonly error: string | undefined
  accept(invitation: string): void
  decline(invitation: string): void
  useOwnAccount(): void
}

/** What whoever was invited sees before they are signed in: nobody is put into an account unasked. */
export const ChooseAccount = ({ choice, error, accept, decline, useOwnAccount }: ChooseAccountProps) => {
  const { email, account, invitations, signUp } = choice
  return (
    <main class="sign-in" id="content">
      <Brand />
      <h1>{text.title}</h1>
      <Notice text={error} />
      <p>
        {text.proven} {email}
      </p>
      {account !== null && (
        <p>
          {text.hasAccount} <strong>{account}</strong>. {text.oneAccount}
        </p>
      )}
      {invitations.length === 0 && <p role="status">{text.none}</p>}
      {invitations.map(invitation => (
        <section key={invitation.id} class="card" aria-label={`${text.from} ${invitation.account}`}>
          <p>
            <strong>{invitation.inviter}</strong> {text.invites} <strong>{invitation.account}</strong> {text.as}{' '}
            <strong>{invitation.role}</strong>.
          </p>
          <p>
            {text.until} {formatTime(invitation.expires)}
          </p>
          <p class="actions">
            {account === null && (
              <button type="button" onClick={() => accept(invitation.id)}>
                {text.join} {invitation.account}
              </button>
            )}
            <button
              type="button"
              class="quiet"
              aria-label={`${text.decline}: ${invitation.account}`}
              onClick={() => decline(invitation.id)}
            >
              {text.decline}
            </button>
          </p>
        </section>
      ))}
      {(account !== null || signUp) && (
        <button type="button" class={invitations.length > 0 ? 'quiet' : undefined} onClick={useOwnAccount}>
          {account === null ? text.makeOwn : `${text.signInTo} ${account}`}
        </button>
      )}
    </main>
  )
}
