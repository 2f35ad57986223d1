import type { GatewayConfig } from '../config/types.ts'

export const urlOf = (host: string, port: number, scheme: 'http' | 'https' = 'http'): string =>
  `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`

export const schemeOf = ({ tls }: GatewayConfig['listen']): 'http' | 'https' => (tls === undefined ? 'http' : 'https')

/** Addresses that listen on all interfaces; a client reaches them on the loopback interface. */
const loopbackByWildcard: Readonly<Record<string, string>> = { '0.0.0.0': '127.0.0.1', '::': '::1' }

/** The URL of the admin listener on this machine, by its configuration; undefined without one. */
export const localAdminUrl = ({ listen: { admin }, admin: { tls } }: Pick<GatewayConfig, 'listen' | 'admin'>): string | undefined =>
  admin && urlOf(loopbackByWildcard[admin.host] ?? admin.host, admin.port, tls && 'https')
