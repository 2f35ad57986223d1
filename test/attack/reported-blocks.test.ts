import t from 'tap'
import { runReportedBlocks } from './reported-blocks.ts'

t.setTimeout(120_000)

// `npm run attack` does 20 rounds, and `--full` 200.

t.test('after the receipt of a block, no answer is from before that block', async t => {
  const results = await runReportedBlocks({ rounds: 5, seed: 1, log: line => t.comment(line) })
  for (const { name, stale, examples } of results) t.equal(stale, 0, name, { examples })
})
