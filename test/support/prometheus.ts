import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { waitUntil } from './wait-until.ts'

/** Is the program installed? Both are in the Debian package prometheus. */
export const hasProgram = (name: 'promtool' | 'prometheus'): boolean => {
  try {
    execFileSync(name, ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** What promtool prints about the input; empty when it has no complaint. */
export const runPromtool = (args: readonly string[], input = ''): string => {
  try {
    return execFileSync('promtool', args, { input, encoding: 'utf8', stdio: ['pipe', 'pipe', 'pipe'] })
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string } // execFileSync() adds them
    return `${stdout}${stderr}`
  }
}

export interface Prometheus {
  /** `data` of a successful answer of its HTTP API. */
  get<T>(path: string, query: Readonly<Record<string, string>>): Promise<T>
  stop(): Promise<void>
}

/** A real Prometheus that scrapes one target each 200 ms, and stores exemplars. */
export const startPrometheus = async (target: string): Promise<Prometheus> => {
  const dir = mkdtempSync(join(tmpdir(), 'tollgate-prometheus-'))
  const config = { scrape_configs: [{ job_name: 'tollgate', scrape_interval: '200ms', static_configs: [{ targets: [target] }] }] }
  writeFileSync(join(dir, 'prometheus.yaml'), JSON.stringify(config))
  const port = await freePort()
  const args = [
    `--config.file=${join(dir, 'prometheus.yaml')}`,
    `--storage.tsdb.path=${join(dir, 'data')}`,
    `--web.listen-address=127.0.0.1:${port}`,
    '--enable-feature=exemplar-storage',
  ]
  const child = spawn('prometheus', args, { stdio: 'ignore' })
  const exited = once(child, 'exit')
  const get = async <T>(path: string, query: Readonly<Record<string, string>>): Promise<T> => {
    const response = await fetch(`http://127.0.0.1:${port}/api/v1/${path}?${new URLSearchParams(query)}`)
    const { status, data, error } = (await response.json()) as { status: string; data: T; error?: string } // as its API documents
    if (status !== 'success') throw new Error(`${path} ${JSON.stringify(query)}: ${error}`)
    return data
  }
  await waitUntil(() =>
    fetch(`http://127.0.0.1:${port}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    ),
  )
  return {
    get,
    async stop() {
      child.kill('SIGKILL')
      await exited
      rmSync(dir, { recursive: true, force: true })
    },
  }
}
