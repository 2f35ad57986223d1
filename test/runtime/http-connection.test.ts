import { once } from 'node:events'
import { createServer } from 'node:http'
import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import t from 'tap'
import { holdsCurrentResponse, trackResponses } from '../../src/runtime/http-connection.ts'

t.test('this version of Node holds the current response of a connection in `_httpMessage`', async t => {
  t.ok(holdsCurrentResponse())
})

for (const isSupported of [true, false]) {
  t.test(
    `the current response of a connection is the oldest that has not been sent${isSupported ? '' : ', by events alone too'}`,
    async t => {
      const received: { stream: Duplex; res: ServerResponse }[] = []
      const server = createServer((req, res) => void received.push({ stream: req.socket, res }))
      const currentResponse = trackResponses(server, isSupported)
      server.on('checkExpectation', (req, res) => server.emit('request', req, res)).listen(0, '127.0.0.1')
      await once(server, 'listening')
      t.teardown(() => server.close())
      const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
      t.teardown(() => socket.destroy())
      socket.write('GET /one HTTP/1.1\r\nHost: a\r\n\r\nGET /two HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n')
      while (received.length < 2) await new Promise(setImmediate)
      const [first, second] = received
      t.equal(currentResponse(first!.stream), first!.res)
      const firstSent = once(first!.res, 'finish')
      first!.res.end()
      await firstSent
      t.equal(currentResponse(first!.stream), second!.res)
      const secondSent = once(second!.res, 'finish')
      second!.res.end()
      await secondSent
      t.equal(currentResponse(first!.stream), undefined)
    },
  )
}
