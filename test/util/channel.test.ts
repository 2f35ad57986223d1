import t from '../support/tap.ts'
import { Channel } from '../../src/util/channel.ts'
import type { ChannelCall, ChannelTopic } from '../../src/util/channel.ts'
import { TestClock } from '../support/fakes.ts'

interface ToServer {
  readonly level: ChannelTopic<{ readonly name: string; readonly level: number }>
  readonly report: ChannelCall<number, string[]>
}

interface ToClient {
  readonly update: ChannelTopic<readonly number[]>
}

/** Two processes, and a pipe each way, which is full from its first message until the test delivers what is in it. */
const open = () => {
  const clock = new TestClock()
  const [up, down]: (() => void)[][] = [[], []]
  const [received, updates]: [unknown[], unknown[]] = [[], []]
  const replies: ((reply: string[]) => void)[] = []
  const client: Channel<ToServer, ToClient> = new Channel<ToServer, ToClient>({
    clock,
    rules: { level: { key: ({ name }) => name }, report: { merge: Math.max } },
    transmit: (message, onSent) => void up?.push(() => (onSent(), server.receive(message))),
  })
  const server: Channel<ToClient, ToServer> = new Channel<ToClient, ToServer>({
    clock,
    rules: { update: { merge: (older, newer) => [...older, ...newer] } },
    transmit: (message, onSent) => void down?.push(() => (onSent(), client.receive(message))),
  })
  client.handle({ update: update => updates.push(update) })
  server.handle({
    level: level => received.push(level),
    report(block, reply) {
      received.push(block)
      replies.push(reply)
    },
  })
  const deliver = (pipe: (() => void)[] = []) => {
    while (pipe.length > 0) pipe.shift()?.()
  }
  return { clock, client, server, received, updates, replies, deliverUp: () => deliver(up), deliverDown: () => deliver(down) }
}

t.test('while the pipe is full, the newest value of each key waits, behind all that has waited before', async t => {
  const { client, received, deliverUp } = open()
  const send = (name: string, level: number) => client.send('level', { name, level })
  send('a', 0)
  for (let level = 1; level <= 1_000; level++) for (const name of ['a', 'b']) send(name, level)
  send('a', 1_001)
  deliverUp()
  t.same(received, [
    { name: 'a', level: 0 },
    { name: 'b', level: 1_000 },
    { name: 'a', level: 1_001 },
  ])
})

t.test('one reply answers all calls that became one message, and no other', async t => {
  const { client, clock, received, replies, deliverUp, deliverDown } = open()
  const first = client.call('report', 1, 50)
  const early = client.call('report', 3, 20)
  clock.advance(20)
  t.equal(await early, 'late')
  const joined = [client.call('report', 4, 50), client.call('report', 2, 50)]
  deliverUp()
  t.same(received, [1, 4])
  replies[1]?.(['second'])
  deliverDown()
  t.same(await Promise.all(joined), [['second'], ['second']])
  replies[0]?.(['first'])
  deliverDown()
  t.same(await first, ['first'])
})

t.test('a reply comes behind what was sent before it, and before what is sent later, though all wait', async t => {
  const { client, server, updates, replies, deliverUp, deliverDown } = open()
  const seen: unknown[] = []
  for (const i of [1, 2]) {
    void client.call('report', i, 50, () => seen.push([...updates]))
    deliverUp()
  }
  server.send('update', [0])
  server.send('update', [1])
  server.send('update', [2])
  replies[0]?.([])
  server.send('update', [3])
  server.send('update', [4])
  replies[1]?.([])
  server.send('update', [5])
  deliverDown()
  t.same(updates, [[0], [1, 2], [3, 4], [5]])
  t.same(seen, [updates.slice(0, 2), updates.slice(0, 3)])
})

t.test('a call is late without a reply, and a later reply is nothing; calls of a process that has ended are over at once', async t => {
  const { client, clock, replies, deliverUp, deliverDown } = open()
  const late = client.call('report', 1, 50)
  deliverUp()
  clock.advance(50)
  t.equal(await late, 'late')
  replies[0]?.([])
  deliverDown()
  const pending = client.call('report', 2, 50)
  client.close()
  t.same([await pending, await client.call('report', 3, 50)], ['exited', 'exited'])
})
