import type { KeyRow } from '../../store/store.ts'
import { notFound } from '../api-errors.ts'
import { listOf, schemaRef } from '../openapi.ts'
import { keyJson } from '../key-settings.ts'
import { findAccount } from './operator-accounts.ts'
import { defineOperatorRoute } from './operator-route.ts'

const toJson = (row: KeyRow, now: number) => ({ ...keyJson(row, now), account: row.account })

const keyActions = {
  suspend: 'Refuses calls with the key until it is resumed.',
  resume: 'Accepts calls with a suspended key again.',
  revoke: 'Refuses calls with the key for good.',
} as const

export const operatorKeyRoutes = [
  defineOperatorRoute({
    method: 'get',
    path: '/accounts/{id}/keys',
    summary: 'The keys of an account, revoked ones too.',
    response: listOf(schemaRef('Key')),
    async handle({ params }, services) {
      const { id } = await findAccount(services, params['id'])
      return (await services.store.keys(id)).map(row => toJson(row, services.clock.now()))
    },
  }),
  ...(['suspend', 'resume', 'revoke'] as const).map(action =>
    defineOperatorRoute({
      method: 'post',
      path: `/keys/{id}/${action}`,
      summary: keyActions[action],
      response: schemaRef('Key'),
      async handle({ params: { id = '' } }, { accounts, clock }) {
        const row =
          action === 'revoke'
            ? await accounts.revokeKey(id)
            : await accounts.changeKey(id, { suspended: action === 'suspend' ? clock.now() : null })
        if (row === undefined) throw notFound('key')
        return toJson(row, clock.now())
      },
    }),
  ),
]
