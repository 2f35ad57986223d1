import type { ObjectSchema } from '../plugin/options-schema.ts'

/** `listen.tls`. */
export const tlsSchema = {
  type: 'object',
  description:
    'TLS on the RPC listener and the portal, version 1.2 or 1.3. The files are read again when they change; open connections stay. Without it, ' +
    'the listeners speak plain HTTP, for a proxy that ends TLS.',
  properties: {
    cert: {
      type: 'string',
      format: 'path',
      description: 'The PEM file of the certificate, followed by its chain; relative to this file.',
      examples: ['/etc/letsencrypt/live/rpc.example.com/fullchain.pem'],
    },
    key: {
      type: 'string',
      format: 'path',
      description: 'The PEM file of the private key, without a passphrase; relative to this file.',
      examples: ['/etc/letsencrypt/live/rpc.example.com/privkey.pem'],
    },
    listeners: {
      type: 'array',
      items: { type: 'string', enum: ['rpc', 'portal'] },
      minItems: 1,
      default: ['rpc', 'portal'],
      description: 'The listeners with TLS. The admin listener has none: it belongs on an address that only operators reach.',
    },
  },
  required: ['cert', 'key'],
} as const satisfies ObjectSchema
