import t from '../support/tap.ts'
import { createClientAddressReader } from '../../src/server/client-address.ts'
import { AddressSet, isSubnet, networkOf, parseAddressText } from '../../src/util/address-set.ts'

const readAddress = (peer: string, headers: Readonly<Record<string, string>>, trusted = ['10.0.0.0/8', '2001:db8::/32']) =>
  // The two members that are read.
  createClientAddressReader(trusted)({ headers, socket: { remoteAddress: peer } } as never)

t.test('without trusted proxies, and from elsewhere, the address is that of the connection', t => {
  const headers = { 'x-forwarded-for': '1.1.1.1', forwarded: 'for=1.1.1.1' }
  t.equal(readAddress('9.9.9.9', headers, []), '9.9.9.9')
  t.equal(readAddress('9.9.9.9', headers), '9.9.9.9')
  t.equal(readAddress('::ffff:9.9.9.9', headers), '9.9.9.9')
  t.equal(readAddress('10.0.0.1', {}), '10.0.0.1')
  t.end()
})

t.test('of a trusted proxy, the rightmost address that is no trusted proxy counts', t => {
  for (const [header, expected] of [
    ['9.9.9.9', '9.9.9.9'],
    ['1.1.1.1, 9.9.9.9', '9.9.9.9'],
    ['1.1.1.1,9.9.9.9 , 10.1.1.1,2001:db8::7', '9.9.9.9'],
    ['9.9.9.9:4711, [2001:db8::7]:443', '9.9.9.9'],
    ['2a00::1', '2a00::1'],
    ['10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['9.9.9.9, unknown, 10.0.0.2', ''],
    ['9.9.9.9,', ''],
  ] as const) {
    for (const peer of ['10.0.0.1', '::ffff:10.0.0.1', '2001:db8::1']) {
      t.equal(readAddress(peer, { 'x-forwarded-for': header }), expected, `${header} by ${peer}`)
    }
  }
  t.end()
})

t.test('Forwarded is read as RFC 7239 writes it, and a malformed one names nobody', t => {
  for (const [header, expected] of [
    ['for=9.9.9.9;proto=https;by=10.0.0.1', '9.9.9.9'],
    ['for=1.1.1.1, For="9.9.9.9:80" ; proto=http', '9.9.9.9'],
    ['for="[2a00::1]:4711", for=10.0.0.2', '2a00::1'],
    ['for=9.9.9.9;host="a,for=1.1.1.1"', '9.9.9.9'],
    ['for=1.1.1.1, proto=https', ''],
    ['for=_hidden', ''],
    ['for=1.1.1.1;x=", for=9.9.9.9', ''],
    ['for=1.1.1.1;x=", for="[2a00::1]"', ''],
    ['for=1.1.1.1 9.9.9.9', ''],
    [`for=1.1.1.1${' '.repeat(15_000)}x`, ''],
  ] as const) {
    t.equal(readAddress('10.0.0.1', { forwarded: header }), expected, header.slice(0, 60))
  }
  t.end()
})

t.test('where both headers stand and do not agree, nobody is named', t => {
  t.equal(readAddress('10.0.0.1', { 'x-forwarded-for': '9.9.9.9', forwarded: 'for=9.9.9.9' }), '9.9.9.9')
  t.equal(readAddress('10.0.0.1', { 'x-forwarded-for': '9.9.9.9', forwarded: 'for=1.1.1.1' }), '')
  t.end()
})

t.test('a set has addresses and subnets of both families', t => {
  const set = new AddressSet(['192.0.2.7', '10.1.2.3/8', '2001:db8::/35', '::1'])
  for (const address of [
    '192.0.2.7',
    '10.9.9.9',
    '::ffff:10.9.9.9',
    '::ffff:a09:909',
    '2001:db8:1fff::1',
    '2001:DB8::1',
    '::1',
    '::1%lo',
  ]) {
    t.ok(set.has(address), address)
    t.ok(set.has(address), `${address}, asked again`)
  }
  for (const address of ['192.0.2.8', '11.0.0.0', '2001:db8:2000::1', '::2', '', 'x', '10.1', `10.0.0.1${' '.repeat(99)}`])
    t.notOk(set.has(address), address)
  t.equal(new AddressSet([]).has('10.0.0.1'), false)
  t.end()
})

t.test('texts that are no address or subnet are recognized', t => {
  for (const text of ['1.2.3.4', '1.2.3.0/0', '1.2.3.4/32', '2001:db8::/32', '::/0', '::ffff:1.2.3.4/104']) t.ok(isSubnet(text), text)
  for (const text of ['', '1.2.3', '1.2.3.4/33', '1.2.3.4/08', '1.2.3.4/', '::/129', 'fe80::1%eth0', 'host', '1.2.3.4 ', '1.2.3.4-9'])
    t.notOk(isSubnet(text), text)
  t.throws(() => new AddressSet(['host']))
  t.equal(parseAddressText('fe80::1%eth0'), 'fe80::1')
  t.end()
})

t.test('the network of an address is a /64 of IPv6, and an IPv4 address itself', t => {
  for (const address of ['2001:db8:0:1::5', '2001:0DB8:0:1:9:9:9:9', '2001:db8::1:0:0:0:7'])
    t.equal(networkOf(address), '2001:db8:0:1::/64', address)
  t.equal(networkOf('::1'), '0:0:0:0::/64')
  t.equal(networkOf('2001:db8::'), '2001:db8:0:0::/64')
  t.equal(networkOf('192.0.2.7'), '192.0.2.7')
  t.equal(networkOf(''), '')
  t.end()
})
