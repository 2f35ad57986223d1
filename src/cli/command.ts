/** Where a command writes and what it sees of the machine; tests pass their own. */
export interface Terminal {
  out(line: string): void
  err(line: string): void
  /** Draws the last line anew; only where somebody watches. */
  readonly status?: (text: string) => void
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Exit codes, after sysexits: systemd and CI tell a bad configuration from a crash. */
export const exitCodes = { ok: 0, failed: 1, usage: 64, config: 78 } as const

/** One verb of the command line. */
export interface Command {
  readonly name: string
  /** One line for `tollgate help`. */
  readonly summary: string
  /** Each form it may be called in, without `tollgate`. */
  readonly usage: readonly string[]
  /** Resolves with the exit code. Throws Misuse for wrong words. */
  run(args: readonly string[], terminal: Terminal): Promise<number>
}

/** The words of the command line are wrong; printed with the usage, exit 64. */
export class UsageError extends Error {}
