import type { ObjectSchema } from '../plugin/options-schema.ts'

/** Of keys of which only the issuer has the private part. */
export const asymmetricAlgorithms = [
  ...['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'],
  ...['ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519'],
] as const

/** Of a secret that both sides share. */
export const secretAlgorithms = ['HS256', 'HS384', 'HS512'] as const

/** `jwt` of gateway.yaml. */
export const jwtSchema = {
  type: 'object',
  description:
    'Tokens (JWT) in place of API keys: a claim of the token names the key. Exactly one of `jwks`, `keyFile` and `secret` verifies them. ' +
    'Without it, tokens are not accepted.',
  properties: {
    issuer: {
      type: 'string',
      minLength: 1,
      description: 'The claim `iss` that tokens must have.',
      examples: ['https://login.example.org'],
    },
    audience: {
      type: 'array',
      items: { type: 'string', minLength: 1 },
      minItems: 1,
      description: 'The claim `aud` of a token must name one of these: tokens that the issuer has made for other services are refused.',
      examples: [['tollgate']],
    },
    jwks: {
      type: 'string',
      pattern: '^https?://[^#]+$',
      label: 'a URL such as https://login.example.org/.well-known/jwks.json',
      description:
        'The URL of the JSON Web Key Set of the issuer, without user and password. It is fetched every 5 minutes, and when a token names a key that is not known, at most ' +
        'twice a minute. While it cannot be fetched, known keys stay valid.',
      examples: ['https://login.example.org/.well-known/jwks.json'],
    },
    keyFile: {
      type: 'string',
      format: 'path',
      description:
        'A file of public keys, relative to this file: a JSON Web Key Set, or PEM, also of several keys. It is read again when it changes.',
      examples: ['jwt-keys.pem'],
    },
    secret: {
      type: 'string',
      format: 'secret',
      description:
        'A secret of at least 32 bytes that the issuer signs with (HS256). Whoever knows it can make tokens: prefer the other two.',
      examples: ['${JWT_SECRET}'],
    },
    algorithms: {
      type: 'array',
      items: { type: 'string', enum: [...asymmetricAlgorithms, ...secretAlgorithms] },
      minItems: 1,
      description:
        'The algorithms that signatures may have; all that fit public keys, or `secret`, if absent. A token without a signature is never accepted.',
      examples: [['ES256']],
    },
    claim: {
      type: 'string',
      minLength: 1,
      default: 'sub',
      description:
        'The claim that has the id of the API key, such as key_3fKx81bQ2mZa. The limits, lists and revocation of that key apply.',
      examples: ['https://example.org/tollgate-key'],
    },
    clockTolerance: {
      type: 'string',
      format: 'duration',
      usual: { min: '1s', max: '5m' },
      default: '30s',
      description:
        'How far the clock of the issuer may be off: a token is accepted for so long after it has expired, and before it is valid.',
    },
    maxAge: {
      type: 'string',
      format: 'duration',
      usual: { min: '10s', max: '90d' },
      description:
        'The greatest age of a token by its claim `iat`, which it then must have. Without it, `exp` alone ends a token; every token must have that.',
      examples: ['1h'],
    },
  },
  required: ['issuer', 'audience'],
} as const satisfies ObjectSchema
