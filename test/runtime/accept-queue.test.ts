import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { nextTick, platform } from 'node:process'
import t from '../support/tap.ts'
import { fillAcceptQueue, listeningHandleOf } from '../../src/runtime/accept-queue.ts'

const skip = platform !== 'linux' && 'only Linux bounds its queue exactly'

const listenAt = async (host: string) => {
  const accepted: Socket[] = []
  const server = createServer(socket => void accepted.push(socket.on('error', () => undefined)))
  server.listen(0, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo // of TCP
  const outcomes: Promise<string>[] = []
  const open = (): void => {
    const socket = connect(port, host === '::' ? '::1' : '127.0.0.1')
    let isConnected = false
    socket.on('connect', () => (isConnected = true)).on('data', () => undefined)
    outcomes.push(
      new Promise(resolve => {
        socket.on('error', ({ code }: NodeJS.ErrnoException) => resolve(isConnected ? `connected, then ${code}` : `${code}`))
        socket.on('close', () => resolve('served'))
      }),
    )
  }
  /** Who was accepted gets an answer. */
  const end = async (): Promise<readonly string[]> => {
    for (const socket of accepted) socket.end('answer')
    return (await Promise.all(outcomes)).sort()
  }
  return { server, accepted, open, end }
}

/** They are opened in this turn, and nothing is accepted in it. */
const opened = (): Promise<void> => new Promise(resolve => nextTick(resolve))

for (const host of ['127.0.0.1', '0.0.0.0', '::']) {
  t.test(
    `at ${host} who connects before listening ends is accepted, and who connects while it ends is refused: nobody is reset`,
    { skip },
    async t => {
      const { server, accepted, open, end } = await listenAt(host)
      for (let i = 0; i < 20; i++) open()
      await opened()
      const closeFillers = await fillAcceptQueue(listeningHandleOf(server), () => accepted.length)
      // In the moment between the last connection that is accepted and the end.
      for (let i = 0; i < 5; i++) open()
      await opened()
      server.close()
      closeFillers()
      const outcomes = await end()
      t.same(outcomes, [...new Array<string>(5).fill('ECONNREFUSED'), ...new Array<string>(20).fill('served')])
    },
  )
}

t.test('nothing is done where nothing listens', async t => {
  const server = createServer()
  const closeFillers = await fillAcceptQueue(listeningHandleOf(server), () => 0)
  closeFillers()
  t.equal(server.listening, false)
})
