import t from '../support/tap.ts'
import { plain, styleOf, truncate } from '../../src/util/style.ts'
import { formatCount, formatDuration, formatSize } from '../../src/util/units.ts'

const terminal = { isTTY: true }
const pipe = {}

t.test('text is in color on a terminal alone, and as NO_COLOR and FORCE_COLOR say', async t => {
  const env = { TERM: 'xterm-256color' }
  const red = '\u001b[31mno\u001b[39m'
  t.equal(styleOf(terminal, env)('error', 'no'), red)
  t.equal(styleOf(terminal, env)('error', ''), '')
  t.equal(styleOf(pipe, env), plain)
  t.equal(styleOf(terminal, { ...env, NO_COLOR: '1' }), plain)
  t.equal(styleOf(terminal, { TERM: 'dumb' }), plain)
  t.equal(styleOf(pipe, { FORCE_COLOR: '1' })('error', 'no'), red)
  t.equal(styleOf(terminal, { ...env, FORCE_COLOR: '0' }), plain)
  t.equal(plain('error', 'no'), 'no')
})

t.test('a text in color is cut to the characters that are seen', async t => {
  const style = styleOf(pipe, { FORCE_COLOR: '1' })
  t.equal(truncate('abcdef', 3), 'abc')
  t.equal(truncate(`ab${style('ok', 'cdef')}gh`, 4), `ab${style('ok', 'cd')}`)
  t.equal(truncate(style('ok', 'ab'), 9), style('ok', 'ab'))
})

t.test('quantities are written as in configuration files', async t => {
  t.same([9_000, 1_500, 120_000, 86_400_000, 0].map(formatDuration), ['9s', '1500ms', '2m', '1d', '0ms'])
  t.same([33_554_432, 1_000, 1_536 * 1024, 0].map(formatSize), ['32MiB', '1000B', '1536KiB', '0B'])
  t.equal(formatCount(2_747_900), '2,747,900')
})
