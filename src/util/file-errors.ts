/** Why a file cannot be read, in words. */
export const describeReadError = (error: unknown): string => {
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  return readErrorMessages[code] ?? `the file cannot be read: ${code}`
}

const readErrorMessages: Readonly<Record<string, string>> = {
  ENOENT: 'no such file',
  ENOTDIR: 'no such file',
  EISDIR: 'this is a directory, not a file',
  ELOOP: 'the symbolic links of this file form a loop',
  EACCES: 'the file cannot be read: permission denied',
}
