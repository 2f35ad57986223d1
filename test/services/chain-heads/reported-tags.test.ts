import t from '../../support/tap.ts'
import { TagTracker } from '../../../src/services/chain-heads/reported-tags.ts'
import type { TagState } from '../../../src/services/chain-heads/reported-tags.ts'

/** Callers were told of block 1,000. The block time is 12 s, so that 64 blocks are two epochs. */
const openTags = (names: readonly string[] = ['a', 'b'], polled: Readonly<Record<string, number>> = {}) => {
  const changes: TagState[] = []
  const heights: Record<'raised' | 'lowered', number[]> = { raised: [], lowered: [] }
  let listener = (_height: number): unknown => undefined
  const broadcast = {
    raise: (height: number) => void heights.raised.push(height),
    lower: (height: number) => void heights.lowered.push(height),
    subscribe: (given: (height: number) => unknown) => {
      listener = given
      return () => {
        listener = () => undefined
      }
    },
  }
  const tags = new TagTracker({
    blockTime: 12_000,
    broadcasts: { finalized: [broadcast] },
    upstreams: () => names.map(name => ({ name })),
    reportedHeight: () => 1000,
    finalizedOf: name => polled[name ?? ''],
    onChange: state => changes.push(state),
  })
  const unsubscribe = tags.subscribe()
  return { tags, changes, heights, receive: (height: number) => listener(height), unsubscribe }
}

t.test('what callers were told of a tag', async t => {
  t.test('is the block for each upstream that is not known to have got so far', async t => {
    const { tags } = openTags(['a', 'b', 'c'], { b: 900, c: 940 })
    t.equal(tags.blockFor('b', 'finalized'), undefined, 'callers were told of nothing')
    tags.report('a', 'finalized', 936)
    t.equal(tags.blockFor('a', 'finalized'), undefined)
    t.equal(tags.blockFor('b', 'finalized'), 936)
    t.equal(tags.blockFor('c', 'finalized'), undefined, 'its polls returned a greater block')
    t.equal(tags.blockFor('a', 'safe'), undefined, 'each tag for itself')
    tags.report('b', 'finalized', 936)
    t.equal(tags.blockFor('b', 'finalized'), undefined)
  })

  t.test('never goes down with a lower report, and changes only when it rises', async t => {
    const { tags, changes, heights } = openTags()
    for (const block of [936, 904, 936]) tags.report('a', 'finalized', block)
    tags.report('b', 'finalized', 904)
    t.equal(tags.reported('finalized'), 936)
    t.equal(changes.length, 2, 'by the first report, and by what the other upstream answered')
    t.same(heights.raised, [936])
  })

  t.test('is raised by no upstream above the reported height, nor by an unknown or implausible one', async t => {
    const { tags } = openTags()
    tags.report('a', 'finalized', 1001)
    tags.report('implausible', 'finalized', 900)
    t.equal(tags.reported('finalized'), undefined)
  })

  t.test('is not raised by an upstream that others contradict', async t => {
    const { tags } = openTags(['liar', 'b', 'c'], { b: 900, c: 904 })
    tags.report('liar', 'finalized', 1000)
    t.equal(tags.reported('finalized'), undefined)
    tags.report('liar', 'finalized', 936)
    t.equal(tags.reported('finalized'), 936, 'two epochs apart is plausible')
  })

  t.test('goes back with the reported height', async t => {
    const { tags, heights } = openTags()
    tags.report('a', 'finalized', 936)
    tags.report('a', 'safe', 968)
    tags.cap(950)
    t.same([tags.reported('finalized'), tags.reported('safe'), tags.heightOf('a', 'safe')], [936, 950, 950])
    t.same(heights.lowered, [], 'other gateways keep a block that is not above it')
    tags.cap(930)
    t.same([tags.reported('finalized'), heights.lowered], [930, [930]])
  })

  t.test('is void once finality was reverted: each upstream is requested by the tag again', async t => {
    const { tags, heights } = openTags()
    tags.report('a', 'finalized', 936)
    tags.reset()
    t.same(
      [tags.reported('finalized'), tags.blockFor('a', 'finalized'), tags.blockFor('b', 'finalized')],
      [undefined, undefined, undefined],
    )
    t.same(heights.lowered, [0])
  })

  t.test('comes from gateways on other machines, too', async t => {
    const { tags, receive } = openTags()
    receive(936)
    t.equal(tags.blockFor('a', 'finalized'), 936)
    receive(1001)
    t.equal(tags.reported('finalized'), 936, 'not above the reported height')
  })
})
