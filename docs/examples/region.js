// configs/region.js
import { definePlugin, withContext } from 'tollgate/plugin'

export default definePlugin({
  name: 'region',
  apiVersion: 1,
  summary: "Writes the caller's region, as the load balancer in front reports it.",
  options: {
    type: 'object',
    properties: {
      header: {
        type: 'string',
        minLength: 1,
        default: 'cf-ipcountry',
        description: 'Request header that names the region. The load balancer must overwrite it, as callers can send it too.',
      },
    },
  },
  writes: ['region'],
  create({ header }) {
    const name = header.toLowerCase()
    return (call, next) => next(withContext(call, { region: String(call.origin.headers[name] ?? 'unknown').toUpperCase() }))
  },
})
