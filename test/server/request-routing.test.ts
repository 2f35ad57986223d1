import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import t from '../support/tap.ts'
import { ReloadableEndpoints } from '../../src/server/reloadable-endpoints.ts'
import { routeRequest } from '../../src/server/request-routing.ts'
import { fakeAccessLog, TestClock, TestLog } from '../support/fakes.ts'

t.test('each request of a connection goes to the network of its own host, with its own key', async t => {
  const limits = { depth: 9, batch: 9, batchReply: 9, batchConcurrency: 9, batchTimeout: 9 }
  const handlerBase = { parse: () => [], limits, clock: new TestClock(), log: new TestLog(), accessLog: fakeAccessLog }
  const networkOf = (name: string, ...hosts: readonly string[]) => ({
    name,
    hosts,
    admit: () => undefined,
    run: () => Promise.reject(new Error('no calls')),
  })
  const endpoints = new ReloadableEndpoints([networkOf('one', 'a'), networkOf('two', 'b')], handlerBase)
  const socket = new Socket()
  const route = (host: string, url: string, headers: Readonly<Record<string, string>> = {}): readonly (number | string | undefined)[] => {
    const request = new IncomingMessage(socket)
    Object.assign(request, { method: 'POST', url, httpVersionMajor: 1, httpVersionMinor: 1 })
    request.rawHeaders = Object.entries({ host, ...headers }).flat()
    request.headers = { host, ...headers }
    const routed = routeRequest({ endpointByHost: endpoints.byHost, readClientAddress: () => '' }, 'http', request)
    return 'error' in routed ? [routed.status] : [routed.endpoint.name, routed.origin.key?.reveal()]
  }
  for (let i = 0; i < 2; i++) {
    t.same(route('a', '/v3/k1'), ['one', 'k1'])
    t.same(route('a', '/v3/k1'), ['one', 'k1'])
    t.same(route('b', '/v3/k1'), ['two', 'k1'])
    t.same(route('b', '/v3/k2'), ['two', 'k2'])
    t.same(route('B:8080', '/v3/k2'), ['two', 'k2'])
    t.same(route('b', 'http://a/v3/k2'), ['one', 'k2'])
    t.same(route('b', '/v3'), ['two', undefined])
    t.same(route('b', '/v3', { 'x-api-key': 'k3' }), ['two', 'k3'])
    t.same(route('b', '/v3/k2', { 'x-api-key': 'k3' }), [401])
    t.same(route('b', '/ws/v3/k2'), [405])
    t.same(route('b', '/v3/k2/'), ['two', 'k2'], 'clients with a base URL add a slash')
    t.same(route('b', '/v3/'), ['two', undefined])
    for (const path of ['/v3/k2//', '/v3//', '/v3//k2', '/v3/k2/x']) t.same(route('b', path), [404], path)
    t.same(route('c', '/v3/k2'), [404])
    for (const host of ['b:', 'B.', 'b.:80']) t.same(route(host, '/v3/k2'), ['two', 'k2'], host)
    for (const host of ['b:x', 'b:80@a', 'a:1:2', 'b:-1', '[b', 'b]', '[[::1]]', 'b:80 a']) t.same(route(host, '/v3/k2'), [400], host)
    t.same(route('b', 'http://a:80@b/v3/k2'), [400], 'the same of an absolute target')
    t.same(route('b', `/v3/${'k'.repeat(300)}`), ['two', 'k'.repeat(300)])
  }
  t.same(route('b', '/v3/k2'), ['two', 'k2'])
  endpoints.replace([networkOf('one', 'b'), networkOf('two', 'a')])
  t.same(route('b', '/v3/k2'), ['one', 'k2'], 'a reload has moved the host to the other network')
})
