import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const repository = fileURLToPath(new URL('../../../', import.meta.url))
/** Not under node_modules, where the build takes a module of the commit for one of a package. */
const cacheFolder = join(repository, 'dist-bench')

/** What git, npm and the compiler may print. */
const maxOutputBytes = 64 << 20

/**
 * The root folder of another commit of this repository, with its packages installed and compiled. It is kept, so that a
 * second comparison with the commit begins at once. Throws an Error for a revision that git does not know.
 */
export const buildCommit = async (revision: string): Promise<string> => {
  const commit = (await git('rev-parse', '--verify', '--quiet', `${revision}^{commit}`)).trim()
  const root = join(cacheFolder, commit)
  if (existsSync(root)) return root
  const unfinished = join(cacheFolder, `${commit}.unfinished`)
  await rm(unfinished, { recursive: true, force: true })
  await mkdir(unfinished, { recursive: true })
  const archive = join(unfinished, 'sources.tar')
  await git('archive', '--output', archive, commit)
  await run('tar', ['-xf', archive, '-C', unfinished])
  await rm(archive)
  await run(process.execPath, [join(unfinished, 'src/cli/setup.mjs'), '--without-tests'])
  await rename(unfinished, root)
  return root
}

const git = (...args: readonly string[]): Promise<string> =>
  run('git', ['-C', repository, ...args]).catch((error: Error) => {
    throw new Error(args[0] === 'rev-parse' ? `git knows no commit ${args.at(-1)?.replace('^{commit}', '')}` : error.message)
  })

const run = async (program: string, args: readonly string[]): Promise<string> =>
  (await promisify(execFile)(program, args, { maxBuffer: maxOutputBytes })).stdout
