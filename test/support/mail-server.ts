import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { SMTPServer } from 'smtp-server'
import { waitUntil } from './wait-until.ts'

/** A message as it arrived: its headers, an empty line, and its text. */
export interface ReceivedMail {
  readonly to: string
  readonly message: string
}

/** A real SMTP server that requires the password `mail-canary`. */
export const startMailServer = async () => {
  const received: ReceivedMail[] = []
  let isRefusing = false
  const server = new SMTPServer({
    hideSTARTTLS: true,
    disableReverseLookup: true,
    onAuth: ({ password }, _session, done) =>
      password === 'mail-canary' ? done(null, { user: 'tollgate' }) : done(new Error('wrong password')),
    onRcptTo: (_address, _session, done) => done(isRefusing ? new Error('no such mailbox') : null),
    onData(stream, session, done) {
      const onMessage = (message: string) => {
        received.push({ to: session.envelope.rcptTo[0]?.address ?? '', message })
        done(null)
      }
      // A gateway that ends cuts off the mail that it sends.
      void text(stream).then(onMessage, () => undefined)
    },
  })
  // The gateway closes its connection without waiting for the answer to QUIT.
  server.on('error', () => undefined)
  const listener = server.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  return {
    url: `smtp://tollgate:mail-canary@127.0.0.1:${(listener.address() as AddressInfo).port}`,
    received,
    refuseAll() {
      isRefusing = true
    },
    /** The token of the link in the mail of this number, from 1 on. */
    async tokenInMail(number: number): Promise<string> {
      await waitUntil(() => received.length >= number)
      // Quoted-printable breaks long lines.
      const message = received[number - 1]?.message.replaceAll('=\r\n', '') ?? ''
      return /\/(?:sign-in|confirm-email)#([\w-]+)/.exec(message)?.[1] ?? ''
    },
    stop: () => new Promise<void>(resolve => server.close(() => resolve())),
  }
}
