import { readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { WebSocket } from 'ws'
import { rootDir } from './source-files.ts'

/** A function that ran. */
export interface FunctionCoverage {
  /** `(anonymous)` where V8 knows no name. */
  readonly name: string
  /** Line of its TypeScript source. */
  readonly line: number
  readonly calls: number
}

/** The functions that ran, by TypeScript file. */
export type CallCoverage = ReadonlyMap<string, readonly FunctionCoverage[]>

/** Counts the calls of functions in a process that was started with --inspect. */
export interface CoverageRecorder {
  /** What ran since the last call; only files in dist/src and dist/plugins. */
  take(): Promise<CallCoverage>
  close(): void
}

/** `inspectorUrl` is what the process prints after `Debugger listening on`. */
export const openCoverageRecorder = async (inspectorUrl: string): Promise<CoverageRecorder> => {
  const session = await openInspectorSession(inspectorUrl)
  await session.request('Profiler.enable')
  await session.request('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  return {
    async take() {
      const { result } = (await session.request('Profiler.takePreciseCoverage')) as { result: readonly ScriptCoverage[] }
      return new Map(result.flatMap(toFileCoverage))
    },
    close: () => session.close(),
  }
}

/** As the inspector reports it; only the members that are read here. */
interface ScriptCoverage {
  readonly url: string
  readonly functions: readonly {
    readonly functionName: string
    /** The first is the whole function. */
    readonly ranges: readonly [{ readonly startOffset: number; readonly count: number }, ...unknown[]]
  }[]
}

const compiledFilePattern = /^(dist\/(?:src|plugins)\/.*)\.js$/

const toFileCoverage = ({ url, functions }: ScriptCoverage): readonly [string, readonly FunctionCoverage[]][] => {
  const [, stem] = compiledFilePattern.exec(url.startsWith('file:') ? fileURLToPath(url).slice(rootDir.length) : '') ?? []
  const called = functions.filter(({ ranges: [range] }) => range.count > 0)
  if (stem === undefined || called.length === 0) return []
  const lineOf = createLineMapper(join(rootDir, `${stem}.js`))
  const found = called.map(({ functionName, ranges: [{ startOffset, count }] }) => ({
    name: functionName || '(anonymous)',
    line: lineOf(startOffset),
    calls: count,
  }))
  return [[`${stem.slice('dist/'.length)}.ts`, found]]
}

/** Maps an offset in a compiled file to a line of its source. */
const createLineMapper = (file: string): ((offset: number) => number) => {
  const text = readFileSync(file, 'utf8')
  const sourceMap = new SourceMap(JSON.parse(readFileSync(`${file}.map`, 'utf8')))
  return offset => {
    const linesBefore = text.slice(0, offset).split('\n')
    const entry = sourceMap.findEntry(linesBefore.length - 1, linesBefore.at(-1)?.length ?? 0)
    return 'originalLine' in entry ? entry.originalLine + 1 : 0
  }
}

interface InspectorSession {
  request(method: string, params?: object): Promise<unknown>
  close(): void
}

/** Chrome DevTools Protocol: one request at a time is enough here. */
const openInspectorSession = async (url: string): Promise<InspectorSession> => {
  const socket = new WebSocket(url)
  const pending = new Map<number, (response: InspectorResponse) => void>()
  socket.on('message', (data: Buffer) => {
    const response = JSON.parse(data.toString()) as InspectorResponse
    pending.get(response.id)?.(response)
    pending.delete(response.id)
  })
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  let lastId = 0
  return {
    request: (method, params = {}) =>
      new Promise((resolve, reject) => {
        const id = (lastId += 1)
        pending.set(id, ({ result, error }) => (error === undefined ? resolve(result) : reject(new Error(`${method}: ${error.message}`))))
        socket.send(JSON.stringify({ id, method, params }))
      }),
    close: () => socket.terminate(),
  }
}

interface InspectorResponse {
  readonly id: number
  readonly result?: unknown
  readonly error?: { readonly message: string }
}
