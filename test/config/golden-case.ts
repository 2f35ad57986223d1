/** A golden file: the files of a configuration, a line of dashes, and the exact report about them. */
export interface GoldenCase {
  readonly files: Readonly<Record<string, string>>
  readonly env: Readonly<Record<string, string>>
  readonly report: string
}

/** Reads a golden file. Each file in it follows a line `==> NAME <==`; the file `env` contains variables. */
export const readCase = (text: string): GoldenCase => {
  const [input = '', report = ''] = text.split(/^-{20,}\n/m)
  const [, ...parts] = input.split(/^==> (.+) <==\n/m)
  const files = new Map<string, string>()
  for (let i = 0; i < parts.length; i += 2) files.set(parts[i] ?? '', parts[i + 1] ?? '')
  const lines = (files.get('env') ?? '').matchAll(/^(\w+)=(.*)$/gm)
  const env = Object.fromEntries([...lines].map(([, name = '', value = '']) => [name, value]))
  files.delete('env')
  return { files: Object.fromEntries(files), env, report: report.trimEnd() }
}
