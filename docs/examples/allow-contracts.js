// configs/allow-contracts.js
import { definePlugin, isJsonObject, refuse } from 'tollgate/plugin'

export default definePlugin({
  name: 'allow-contracts',
  apiVersion: 1,
  summary: 'Lets the listed accounts call the contracts of their list only.',
  options: {
    type: 'object',
    properties: {
      accounts: {
        type: 'object',
        additionalProperties: {
          type: 'array',
          items: { type: 'string', pattern: '^0x[0-9a-fA-F]{40}$', label: 'an address' },
        },
        description: 'The addresses that an account may use, by name of the account; other accounts may use any.',
        examples: [{ alice: ['0x00000000000000000000000000000000000000aa'] }],
      },
    },
    required: ['accounts'],
  },
  reads: ['request', 'account'],
  create({ accounts }) {
    const allowedBy = new Map(Object.entries(accounts).map(([name, list]) => [name, new Set(list.map(lower))]))
    return async (call, next) => {
      const { request, account } = call.context
      const allowed = allowedBy.get(account.name)
      const addresses = allowed && addressesOf(request)
      if (allowed === undefined || addresses === undefined) return next(call)
      const refused = addresses.filter(address => !allowed.has(lower(address)))
      if (refused.length === 0 && addresses.length > 0) return next(call)
      const reason = refused.length > 0 ? `not ${refused.join(', ')}` : 'so the call must name one'
      return refuse('forbidden', { message: `this account may use listed contracts only, ${reason}`, data: { reason: 'contract' } })
    }
  },
})

const lower = address => address.toLowerCase()

/** The contracts that a call is about: an empty list where it could be any. Undefined for methods without an address. */
const addressesOf = ({ method, params: [first] }) => {
  if (method === 'eth_getLogs') return [isJsonObject(first) ? (first.address ?? []) : []].flat()
  if (method === 'eth_call' || method === 'eth_estimateGas') return isJsonObject(first) && first.to ? [first.to] : []
  return /^eth_get(?:StorageAt|Code|Balance|Proof)$/.test(method) ? [first].filter(value => typeof value === 'string') : undefined
}
