import type { Secret } from '../../plugin/secret.ts'
import type { Log } from '../../services/log.ts'

export interface MailOptions {
  /** `smtp://USER:PASSWORD@HOST:PORT`, or `smtps://` for TLS from the first byte. */
  readonly url: Secret
  /** The sender, as `Tollgate <no-reply@example.org>`. */
  readonly from: string
}

export interface Mail {
  readonly to: string
  readonly subject: string
  readonly text: string
  /** For mail that may be sent again: the same each time, so that mailboxes can show it once. */
  readonly messageId?: string
}

/** Sends mail. Resolves with false, after a line in the log, when the mail server did not accept it. */
export type SendMail = (mail: Mail) => Promise<boolean>

/** Not awaited: a mail server may take seconds. */
export const sendInBackground = (log: Pick<Log, 'error'>, sent: Promise<unknown>, failure: string): void =>
  void sent.catch((error: unknown) => log.error({ err: error }, failure))

/** How long the mail server may take for each step. */
const smtpTimeoutMs = 15_000

/** Sends mail by SMTP, one connection a mail; nodemailer is loaded with the first one. */
export const openMailer =
  ({ url, from }: MailOptions, log: Pick<Log, 'warn'>): SendMail =>
  async mail => {
    const { createTransport } = await import('nodemailer')
    const timeouts = { connectionTimeout: smtpTimeoutMs, greetingTimeout: smtpTimeoutMs, socketTimeout: smtpTimeoutMs }
    const transport = createTransport({ url: url.reveal(), ...timeouts, disableFileAccess: true, disableUrlAccess: true })
    try {
      await transport.sendMail({ from, ...mail })
      return true
    } catch (error) {
      log.warn({ cause: causeOf(error) }, 'mail server refused a message, or could not be reached')
      return false
    } finally {
      transport.close()
    }
  }

/** What the server says may quote the recipient or the password: the code and the status are enough to find the cause. */
const causeOf = (error: unknown): string => {
  const { code = 'unknown', responseCode, command } = Object(error) as { code?: string; responseCode?: number; command?: string }
  return [code, responseCode, command].filter(part => part !== undefined).join(' ')
}
