// configs/region-access.js
import { definePlugin, refuse } from 'tollgate/plugin'

export default definePlugin({
  name: 'region-access',
  apiVersion: 1,
  summary: 'Rejects calls from regions that are not listed.',
  options: {
    type: 'object',
    properties: {
      allowed: { type: 'array', items: { type: 'string' }, minItems: 1, description: 'Regions, such as DE or US.' },
    },
    required: ['allowed'],
  },
  reads: ['region'],
  create({ allowed }) {
    const regions = new Set(allowed.map(region => region.toUpperCase()))
    return async (call, next) => {
      const { region } = call.context
      if (regions.has(region)) return next(call)
      return refuse('forbidden', { message: `calls from the region ${region} are not accepted`, data: { reason: 'region', allowed } })
    }
  },
})
