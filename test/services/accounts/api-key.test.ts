import { inspect } from 'node:util'
import t from '../../support/tap.ts'
import {
  generateAccountId,
  generateApiKey,
  generateKeyId,
  isWellFormedKey,
  keyHint,
  toKeySecret,
} from '../../../src/services/accounts/api-key.ts'

t.test('a new key has a prefix, 32 random characters and 6 of a checksum', async t => {
  const keys = Array.from({ length: 200 }, () => generateApiKey().reveal())
  keys.forEach(key => t.match(key, /^tg_[0-9A-Za-z]{38}$/))
  t.ok(keys.every(isWellFormedKey))
  t.equal(new Set(keys).size, 200)
})

t.test('all 62 characters are equally likely', async t => {
  const counts = new Map<string, number>()
  for (let i = 0; i < 1_000; i += 1) {
    for (const char of generateApiKey().reveal().slice(3, 35)) counts.set(char, (counts.get(char) ?? 0) + 1)
  }
  t.equal(counts.size, 62)
  // The mean is 516; the bounds are 8 standard deviations away.
  t.ok([...counts.values()].every(count => count > 340 && count < 700))
})

t.test('the checksum is the CRC-32 of all characters before it, in base62', async t => {
  t.ok(isWellFormedKey('tg_000000000000000000000000000000003hOmhk'))
})

t.test('a key with a character changed, added or left out is malformed', async t => {
  const key = generateApiKey().reveal()
  for (let at = 0; at < key.length; at += 1) {
    const changed = key[at] === 'x' ? 'y' : 'x'
    t.notOk(isWellFormedKey(key.slice(0, at) + changed + key.slice(at + 1)), `changed at ${at}`)
    t.notOk(isWellFormedKey(key.slice(0, at) + key.slice(at + 1)), `left out at ${at}`)
  }
  t.notOk(isWellFormedKey(`${key}0`))
  t.notOk(isWellFormedKey(''))
  t.notOk(isWellFormedKey(`tg_${'\u{1f600}'.repeat(19)}`))
})

t.test('a key prints as a hint unless it is revealed', async t => {
  const key = toKeySecret('tg_000000000000000000000000000000003hOmhk')
  t.same([`${key}`, JSON.stringify(key), inspect({ key })], ['tg_…Omhk', '"tg_…Omhk"', '{ key: tg_…Omhk }'])
  t.equal(keyHint(key.reveal()), 'Omhk')
})

t.test('an id begins with the kind of thing that it identifies', async t => {
  t.match(generateAccountId(), /^acc_[0-9A-Za-z]{12}$/)
  t.match(generateKeyId(), /^key_[0-9A-Za-z]{12}$/)
})
