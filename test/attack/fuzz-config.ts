import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { plugins } from '../../plugins/index.ts'
import { loadConfig } from '../../src/config/load.ts'
import { formatProblems } from '../../src/config/problem.ts'
import { dryRunNetworks } from '../../src/core/dry-run.ts'
import { SeededRandom } from '../simulation/seeded-random.ts'
import { mustBeZero } from './attack.ts'
import type { Attack, AttackOptions, Figure } from './attack.ts'
import { mutate } from './mutate.ts'

const shippedConfigs = fileURLToPath(new URL('../../../configs', import.meta.url))

const networkFiles = ['devnet.yaml', 'ethereum-mainnet.yaml']

const changedFiles = ['gateway.yaml', 'networks/devnet.yaml', 'networks/ethereum-mainnet.yaml', 'methods/ethereum.yaml'] as const

const casesPerScale = 500

/** A value that only the environment holds: no report may show it. */
const secretValue = 'c4n4ry-in-the-environment'

const env = { DEVNET_URL: `http://127.0.0.1:9/${secretValue}`, ETHEREUM_MAINNET_URL: `https://user:${secretValue}@node.example.org/` }

interface Outcome {
  readonly kind: 'accepted' | 'refused' | 'thrown' | 'unplaced' | 'leaked'
  readonly detail?: string
}

/** What `tollgate check` does, without a process. */
const checkConfig = async (dir: string): Promise<Outcome> => {
  const config = await loadConfig(dir, plugins, env)
  const problems = [...config.problems, ...(await dryRunNetworks(config))]
  const report = formatProblems(problems)
  if (report.includes(secretValue)) return { kind: 'leaked', detail: report }
  const unplaced = problems.find(({ file, line, column }) => file === '' || !(line >= 1) || !(column >= 1))
  if (unplaced !== undefined) return { kind: 'unplaced', detail: unplaced.message }
  return { kind: problems.length > 0 ? 'refused' : 'accepted' }
}

const tryConfig = (dir: string): Promise<Outcome> =>
  checkConfig(dir).catch((error: Error): Outcome => ({ kind: 'thrown', detail: error.stack ?? error.message }))

/** Changes one shipped file at a time. */
const fuzzConfig = async ({ seed, scale, log }: AttackOptions): Promise<readonly Figure[]> => {
  const random = new SeededRandom(seed)
  const dir = mkdtempSync(join(tmpdir(), 'tollgate-'))
  const counts = { accepted: 0, refused: 0, thrown: 0, unplaced: 0, leaked: 0 }
  try {
    cpSync(shippedConfigs, dir, { recursive: true })
    // Two networks are enough: the others would be read again for every case.
    for (const file of readdirSync(join(dir, 'networks'))) if (!networkFiles.includes(file)) rmSync(join(dir, 'networks', file))
    for (let count = 0; count < casesPerScale * scale; count++) {
      const file = join(dir, random.pick(changedFiles))
      const original = readFileSync(file, 'utf8')
      const mutated = mutate(original, random)
      writeFileSync(file, mutated)
      const { kind, detail } = await tryConfig(dir)
      counts[kind] += 1
      if (detail !== undefined) log(`${kind}: ${detail}\n${mutated}`)
      writeFileSync(file, original)
    }
  } finally {
    rmSync(dir, { recursive: true, force: true })
  }
  return [
    { name: 'configurations with problems', value: counts.refused },
    { name: 'configurations without problems', value: counts.accepted },
    mustBeZero('configurations that end in an exception', counts.thrown),
    mustBeZero('problems without a place', counts.unplaced),
    mustBeZero('reports that show a value of the environment', counts.leaked),
  ]
}

export const configFuzz: Attack = { name: 'fuzz-config', summary: 'changed YAML files, checked', run: fuzzConfig }
