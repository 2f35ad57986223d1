/** Does `server.listen()` take `reusePort`? On Linux from Node 22.12 and 23.1 on. */
export const isReusePortSupported = (platform: string = process.platform, version: string = process.versions.node): boolean => {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return platform === 'linux' && (major > 23 || (major === 23 && minor >= 1) || (major === 22 && minor >= 12))
}
