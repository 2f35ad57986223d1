import t from '../support/tap.ts'
import { fileMistakes } from './mistakes/files.ts'
import { gatewayMistakes } from './mistakes/gateway.ts'
import { answersTo } from './mistakes/mistake.ts'
import type { Mistake } from './mistakes/mistake.ts'
import { networkMistakes } from './mistakes/network.ts'
import { pipelineMistakes } from './mistakes/pipeline.ts'
import { pluginMistakes } from './mistakes/plugin.ts'
import { upstreamMistakes } from './mistakes/upstreams.ts'

const groups: Readonly<Record<string, readonly Mistake[]>> = {
  'the keys of a network': networkMistakes,
  'the pipeline of a network': pipelineMistakes,
  'the upstreams of a network': upstreamMistakes,
  'the files and their YAML': fileMistakes,
  'gateway.yaml': gatewayMistakes,
  'an external plugin': pluginMistakes,
}

for (const [subject, mistakes] of Object.entries(groups)) {
  t.test(`each mistake in ${subject} gets its answer, with place and fix`, async t => {
    for (const mistake of mistakes) {
      await t.test(mistake.mistake, async t => t.same(await answersTo(t, mistake), mistake.answers))
    }
  })
}
