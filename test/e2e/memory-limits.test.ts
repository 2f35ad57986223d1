import { once } from 'node:events'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import t from '../support/tap.ts'
import type { Test } from 'tap'
import { networkFile, startGateway } from '../support/deployment.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { post } from '../support/rpc-client.ts'
import { residentBytesOf, skipUnlessLinux } from '../support/process-memory.ts'
import { waitUntil } from '../support/wait-until.ts'

// One account takes what it can of a gateway with little memory, and another account calls beside it.

const mib = 1 << 20
const inFlightMiB = 16

const node = await startFakeNode({
  eth_chainId: { result: '0x7a69' },
  eth_blockNumber: { result: '0x10' },
  eth_call: ({ text }) => (text.includes('"0xdead') ? 'hang' : { result: `0x${'ab'.repeat(text.includes('"0xb16') ? 2 * mib : 50_000)}` }),
})
t.teardown(() => node.stop())
const { deployment, gateway, ...modest } = await startGateway(t, {
  gateway: { memory: '8MiB', limits: { inFlight: `${inFlightMiB}MiB` } },
  networks: { testnet: networkFile('testnet', [node.url]) },
})
const greedy = await deployment.addCaller('greedy')

let callCount = 0
const callOf = (data: string): string => {
  callCount += 1
  const params = [{ to: `0x${'00'.repeat(20)}`, data: `${data}${callCount.toString(16).padStart(16, '0')}` }, 'latest']
  return JSON.stringify({ jsonrpc: '2.0', id: callCount, method: 'eth_call', params })
}

/** Sends a call of the greedy account, whose answer is read or not. */
const open = async (test: Test, body: string, reads: boolean): Promise<Socket> => {
  const { port, hostname, pathname } = new URL(gateway.http(greedy.key))
  const socket = connect(Number(port), hostname)
  test.teardown(() => socket.destroy())
  await once(socket, 'connect')
  if (!reads) socket.pause()
  socket.on('error', () => undefined)
  socket.write(
    `POST ${pathname} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  return socket
}

/** Long answers for the modest account, one after the other. */
const assertModestIsServed = async (test: Test): Promise<void> => {
  for (let i = 0; i < 10; i += 1) {
    const { status, text } = await post(modest.url, callOf('0x5000'))
    test.equal(status, 200, text.slice(0, 100))
  }
}

t.test('bodies whose calls hang fill the share of their account, not that of others', { skip: skipUnlessLinux }, async t => {
  await assertModestIsServed(t)
  const restBytes = residentBytesOf(gateway.pid)
  const statuses: string[] = []
  for (let i = 0; i < 60; i += 1) {
    const socket = await open(t, callOf(`0xdead${'ab'.repeat(400_000)}`), true)
    socket.on('data', (chunk: Buffer) => void statuses.push(chunk.toString('latin1', 9, 12)))
  }
  await waitUntil(() => statuses.length >= 50)
  t.same([...new Set(statuses)], ['503'])
  await assertModestIsServed(t)
  const grownMiB = (residentBytesOf(gateway.pid) - restBytes) / mib
  t.ok(grownMiB < 4 * inFlightMiB, `${grownMiB.toFixed(0)} MiB more for 48 MB of bodies and their calls`)
})

t.test('answers that are not read fill the share of their account, not that of others', async t => {
  const greedyStatus = async (): Promise<number> => (await post(gateway.http(greedy.key), callOf('0xb160'))).status
  const sockets: Socket[] = []
  // Those of the calls before are released when the gateway has noticed that their callers have left.
  await waitUntil(async () => (await greedyStatus()) === 200)
  for (let status = 200; status === 200; status = await greedyStatus()) sockets.push(await open(t, callOf('0xb160'), false))
  await assertModestIsServed(t)
  for (const socket of sockets) socket.destroy()
  await waitUntil(async () => (await greedyStatus()) === 200)
  t.pass('what was not read is released with its connection')
})
