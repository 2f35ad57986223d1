import t from '../support/tap.ts'
import { startFakeNode } from '../support/fake-node.ts'
import { startMailServer } from '../support/mail-server.ts'
import { openApiChecker } from '../support/openapi-checker.ts'
import { createPortalClient, createPortalDeployment, printSignInToken, signInToPortal } from '../support/portal-client.ts'
import type { PortalClient } from '../support/portal-client.ts'

t.test('people of an account', async t => {
  const [node, mail] = [await startFakeNode({}), await startMailServer()]
  const deployment = createPortalDeployment(node.url, {
    gateway: {
      portal: {
        url: 'http://127.0.0.1',
        smtp: { url: '${SMTP_URL}', from: 'Tollgate <no-reply@example.org>' },
        signUp: { plan: 'core', perDay: 100 },
      },
    },
    env: { SMTP_URL: mail.url },
  })
  t.teardown(async () => {
    await deployment.remove()
    await Promise.all([node.stop(), mail.stop()])
  })
  for (const name of ['alice', 'bob']) await deployment.addAccount(name)
  const gateway = await deployment.start()
  const portalUrl = gateway.portal ?? ''
  const nobody = createPortalClient(portalUrl)
  const alice = await signInToPortal(deployment, gateway, 'alice')
  const bob = await signInToPortal(deployment, gateway, 'bob')
  const checkResponse = openApiChecker((await alice.get('/openapi.json')).json)
  const patch = (client: PortalClient, id: string, change: object) => client.request('PATCH', `/people/${id}`, change)
  const idOf = async (client: PortalClient): Promise<string> => (await client.get('/session')).json.person.id
  const add = async (name: string, role: string) => {
    const client = await signInToPortal(deployment, gateway, 'alice', '--person', name, '--role', role)
    return { client, id: await idOf(client) }
  }
  let mails = 0
  const nextMail = async () => {
    const token = await mail.tokenInMail((mails += 1))
    const { to = '', message = '' } = mail.received[mails - 1] ?? {}
    return { token, to, message: message.replaceAll('=\r\n', '') }
  }
  const open = async (token: string) => {
    const client = createPortalClient(portalUrl)
    return { client, ...(await client.post('/session', { token })) }
  }
  const confirm = async (token: string) => nobody.post('/email-confirmations', { token })
  const changesOf = async (account: string) =>
    JSON.parse((await deployment.run('changes', '--from', '2020-01-01', '--account', account, '--json')).stdout) as readonly Record<
      string,
      unknown
    >[]
  const aliceId = await idOf(alice)

  t.test('an owner gives others another role, which holds at once', async t => {
    const { client: dan, id } = await add('dan', 'developer')
    t.equal((await dan.post('/keys', { name: 'k' })).status, 201)
    const changed = await patch(alice, id, { role: 'viewer' })
    t.match(changed, { status: 200, json: { id, name: 'dan', role: 'viewer' } })
    t.equal(checkResponse('/people/{id}', 'patch', changed), undefined)
    t.match(await dan.post('/keys', { name: 'k' }), { status: 403, json: { error: { code: 'role' } } })
    t.match((await changesOf('alice')).at(-1), {
      ...{ action: 'person-changed', target: id, by: { kind: 'person', name: /^owner/ } },
      ...{ before: { role: 'developer' }, after: { role: 'viewer' } },
    })
    t.match(await patch(dan, id, { role: 'owner' }), { status: 403 }, 'nobody promotes themselves')
    t.match(await patch(dan, aliceId, { name: 'x' }), { status: 403 }, 'nor changes others')
    t.match(await patch(bob, id, { role: 'owner' }), { status: 404 }, 'nor does an owner of another account')
    t.match(await patch(alice, id, { role: 'admin' }), { status: 400, json: { error: { field: 'role' } } })
  })

  t.test('the last owner stays one, also where two take the role from each other at once', async t => {
    t.match(await patch(alice, aliceId, { role: 'viewer' }), { status: 409, json: { error: { code: 'last-owner', field: 'role' } } })
    for (let i = 0; i < 5; i += 1) {
      const { client: other, id } = await add(`owner${i}`, 'owner')
      const statuses = (await Promise.all([patch(alice, id, { role: 'viewer' }), patch(other, aliceId, { role: 'viewer' })])).map(
        ({ status }) => status,
      )
      const owners = (await alice.get('/people')).json.filter(({ role }: { role: string }) => role === 'owner')
      t.equal(owners.length, 1, statuses.join())
      if (owners[0].id !== aliceId) await patch(other, aliceId, { role: 'owner' })
      t.equal((await alice.delete(`/people/${id}`)).status, 204)
    }
  })

  t.test('everybody changes their own name, which nobody else in the account has', async t => {
    const { client: eve, id } = await add('eve', 'viewer')
    t.match(await patch(eve, id, { name: 'eva' }), { status: 200, json: { name: 'eva' } })
    t.match(await patch(eve, id, { name: 'owner' }), { status: 409, json: { error: { code: 'exists', field: 'name' } } })
    t.match(await patch(eve, id, { name: 'a b' }), { status: 400, json: { error: { field: 'name' } } })
    t.match((await changesOf('alice')).at(-1), { action: 'person-changed', before: { name: 'eve' }, after: { name: 'eva' } })
  })

  t.test('the first owner enters an address, which is theirs once they have confirmed it', async t => {
    const requested = await patch(alice, aliceId, { email: 'Alice@Example.org' })
    t.match(requested, { status: 200, json: { email: null, newEmail: 'alice@example.org', emailVerified: false } })
    const { token, to, message } = await nextMail()
    t.equal(to, 'alice@example.org')
    t.match(message, /owner has entered this e-mail address for owner, owner of the account alice of Tollgate/)
    await alice.post(`/people/${aliceId}/email-confirmation`)
    t.equal((await nextMail()).to, 'alice@example.org', 'the mail again')
    const looked = await nobody.post('/email-confirmations/lookup', { token })
    t.match(looked.json, { email: 'alice@example.org', asker: 'owner', account: 'alice', person: 'owner', role: 'owner', previous: null })
    t.equal(checkResponse('/email-confirmations/lookup', 'post', looked), undefined)
    t.match((await alice.get('/session')).json.person, { email: null }, 'nothing happens before')
    t.match(await confirm(token), { status: 200, json: { email: 'alice@example.org' } })
    t.match((await alice.get('/session')).json.person, { email: 'alice@example.org', emailVerified: true, newEmail: null })
    t.match((await changesOf('alice')).slice(-2), [
      { action: 'person-changed', before: { newEmail: null }, after: { newEmail: 'alice@example.org' } },
      { action: 'person-changed', before: { email: null }, after: { email: 'alice@example.org' } },
    ])
    t.match(await confirm(token), { status: 404, json: { error: { code: 'link-invalid' } } })
    await nobody.post('/sign-in-links', { email: 'alice@example.org' })
    t.match(await open((await nextMail()).token), { status: 201, json: { account: { name: 'alice' } } })
  })

  t.test('another address takes the place of the one before when it is confirmed, and that is told', async t => {
    await nobody.post('/sign-in-links', { email: 'alice@example.org' })
    const { token: oldLink } = await nextMail()
    t.match((await patch(alice, aliceId, { email: 'wrong@example.org' })).json, { newEmail: 'wrong@example.org' })
    const { token: wrong } = await nextMail()
    t.match((await patch(alice, aliceId, { email: 'alice@example.org' })).json, { newEmail: null }, 'it is given up')
    t.match(await confirm(wrong), { status: 404 })
    await patch(alice, aliceId, { email: 'new@example.org' })
    const { token } = await nextMail()
    t.match((await nobody.post('/email-confirmations/lookup', { token })).json, { previous: 'alice@example.org' })
    t.equal((await confirm(token)).status, 200)
    const told = await nextMail()
    t.equal(told.to, 'alice@example.org')
    t.match(told.message, /signs in with the address new@example\.org now/)
    t.match(await open(oldLink), { status: 401 }, 'links to the former address have ended')
  })

  t.test('an address that an owner enters for a colleague reserves and tells nothing, and binds nobody unasked', async t => {
    const { id } = await add('fay', 'viewer')
    await patch(bob, await idOf(bob), { email: 'bob@example.org' })
    t.equal((await confirm((await nextMail()).token)).status, 200)
    const known = await patch(alice, id, { email: 'bob@example.org' })
    const knownMail = await nextMail()
    const unknown = await patch(alice, id, { email: 'nob@example.org' })
    await nextMail()
    t.same({ ...known.json, newEmail: '' }, { ...unknown.json, newEmail: '' })
    t.equal(known.status, unknown.status)
    t.match(await confirm(knownMail.token), { status: 404 }, 'it was changed since')
    await patch(alice, id, { email: 'bob@example.org' })
    t.match(await confirm((await nextMail()).token), { status: 409, json: { error: { code: 'has-account' } } })
    t.match((await bob.get('/session')).json, { person: { email: 'bob@example.org' }, account: { name: 'bob' } })
    await patch(alice, id, { email: 'victim@example.org' })
    const { token: victimLink } = await nextMail()
    await nobody.post('/sign-in-links', { email: 'victim@example.org' })
    t.match(await open((await nextMail()).token), { status: 201, json: { account: { name: 'victim@example.org' } } }, 'it is free')
    t.match(await confirm(victimLink), { status: 409, json: { error: { code: 'has-account' } } })
    t.match(
      await patch(alice, id, { email: 'new@example.org' }),
      { status: 409, json: { error: { code: 'exists', field: 'email' } } },
      'a colleague has it',
    )
  })

  t.test('who has confirmed an address is the only one who changes it', async t => {
    const { client: gil, id } = await add('gil', 'owner')
    await patch(alice, id, { email: 'gil@example.org' })
    await confirm((await nextMail()).token)
    t.match(await patch(alice, id, { email: 'alice2@example.org' }), {
      status: 409,
      json: { error: { code: 'verified', field: 'email', message: /only they change it/ } },
    })
    t.match(await patch(gil, id, { email: 'gil2@example.org' }), { status: 200 })
    t.equal((await nextMail()).to, 'gil2@example.org')
  })

  t.test('an owner has another sign-in link made: it is mailed to a confirmed address, and shown to nobody then', async t => {
    const { client: ida, id } = await add('ida', 'viewer')
    const shown = await alice.post(`/people/${id}/sign-in-links`)
    t.match(shown, { status: 201, json: { mailedTo: null } })
    t.equal(checkResponse('/people/{id}/sign-in-links', 'post', shown), undefined)
    t.match((await open(new URL(shown.json.link).hash.slice(1))).json, { person: { id, name: 'ida' } })
    t.match((await changesOf('alice')).at(-1), { action: 'link-created', target: id, by: { kind: 'person' } })
    await patch(ida, id, { email: 'ida@example.org' })
    await confirm((await nextMail()).token)
    t.match(await alice.post(`/people/${id}/sign-in-links`), { status: 201, json: { link: null, mailedTo: 'ida@example.org' } })
    const { to, token } = await nextMail()
    t.equal(to, 'ida@example.org')
    t.match((await open(token)).json, { person: { id } })
    t.match(await ida.post(`/people/${aliceId}/sign-in-links`), { status: 403 })
    t.match(await bob.post(`/people/${id}/sign-in-links`), { status: 404 })
  })

  t.test('operators list, change and remove people; an address is bound at once, and a mail asks to confirm it', async t => {
    const run = async (...args: readonly string[]) => {
      const { stdout, stderr } = await deployment.run(args[0] ?? '', ...args.slice(1), '--json')
      return stdout === '' ? stderr : JSON.parse(stdout)
    }
    const { client: joe, id } = await add('joe', 'viewer')
    t.match(
      (await run('people', 'list', 'alice')).find((person: { id: string }) => person.id === id),
      { name: 'joe', role: 'viewer', email: null, account: { name: 'alice' } },
    )
    t.match(await run('people', 'set', id, '--role', 'developer', '--name', 'joseph', '--email', 'Joe@example.org'), {
      ...{ name: 'joseph', role: 'developer', email: 'joe@example.org', emailVerified: false, confirmation: 'sent' },
    })
    const { token, message } = await nextMail()
    t.match(message, /The operator has entered this e-mail address for joseph, developer of the account alice/)
    t.equal((await confirm(token)).status, 200)
    t.match((await joe.get('/session')).json.person, { name: 'joseph', email: 'joe@example.org', emailVerified: true })
    t.match(
      await run('people', 'set', id, '--name', 'moe', '--role', 'viewer', '--email', 'bob@example.org'),
      /somebody else signs in with bob@example\.org/,
    )
    t.match((await joe.get('/session')).json.person, { name: 'joseph', role: 'developer' }, 'nothing of it is changed')
    const refused = ['--role', 'viewer', '--name', 'boss', '--email', 'boss@example.org'] as const
    t.match(await run('people', 'set', await idOf(bob), ...refused), /owner is the last owner of the account/)
    t.match(await patch(bob, await idOf(bob), { name: 'boss', role: 'viewer' }), { status: 409, json: { error: { code: 'last-owner' } } })
    t.match((await bob.get('/session')).json.person, { name: 'owner', email: 'bob@example.org' }, 'nothing of it is changed')
    t.match(await run('people', 'remove', await idOf(bob)), /owner is the last owner of the account/)
    t.match(await run('people', 'set', 'usr_none', '--role', 'viewer'), /unknown person id "usr_none"/)
    t.match((await deployment.run('people', 'list', 'alice')).stdout, /^ID +NAME +ROLE +EMAIL +STATE$/m)
    t.match(await run('people', 'remove', id), { id, name: 'joseph' })
    t.equal((await joe.get('/session')).status, 401)
  })

  t.test('a mistyped name makes no owner: the role of a new person is named', async t => {
    const { stderr, code } = await deployment.run('accounts', 'link', 'alice', '--person', 'ownr')
    t.match({ stderr, code }, { stderr: /account "alice" has no person "ownr"; did you mean `owner`\?/, code: 1 })
    t.match((await deployment.run('accounts', 'link', 'alice', '--person', 'zed')).stderr, /name a role to add a new person/)
    t.match(await printSignInToken(deployment, 'alice', '--person', 'zed', '--role', 'viewer'), /^\S+$/)
    t.match(
      (await alice.get('/people')).json.find(({ name }: { name: string }) => name === 'zed'),
      { role: 'viewer' },
    )
    t.match((await changesOf('alice')).slice(-2), [
      { action: 'person-added', after: { name: 'zed', role: 'viewer' } },
      { action: 'link-created' },
    ])
    const taken = await deployment.run('accounts', 'link', 'alice', '--person', 'zoe', '--role', 'viewer', '--email', 'Bob@example.org')
    t.match(taken.stderr, /somebody else signs in with bob@example\.org/)
    t.notOk((await alice.get('/people')).json.some(({ name }: { name: string }) => name === 'zoe'))
  })

  t.test('a person sees where they are signed in, and ends one session or all', async t => {
    const signIn = async (userAgent: string) => {
      const client = createPortalClient(portalUrl)
      const token = await printSignInToken(deployment, 'alice', '--person', 'kim', '--role', 'viewer')
      await client.request('POST', '/session', { token }, { 'user-agent': userAgent })
      return client
    }
    const [here, there] = [
      await signIn('Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0'),
      await signIn('<script>curl/8</script>'),
    ]
    const listed = await here.get('/sessions')
    t.equal(checkResponse('/sessions', 'get', listed), undefined)
    const browsers = listed.json.map(({ browser, isCurrent }: { browser: string; isCurrent: boolean }) => `${browser} ${isCurrent}`)
    t.same(browsers.sort(), ['Another program false', 'Firefox on Linux true'])
    t.equal(listed.json[0].network, '127.0.0.1')
    const { id } = listed.json.find(({ isCurrent }: { isCurrent: boolean }) => !isCurrent)
    t.match(await alice.delete(`/sessions/${id}`), { status: 404 }, 'nobody else does, in the same account')
    t.match(await bob.delete(`/sessions/${id}`), { status: 404 })
    t.notMatch(JSON.stringify((await alice.get('/sessions')).json), id)
    t.equal((await here.delete(`/sessions/${id}`)).status, 204)
    t.equal((await there.get('/session')).status, 401)
    t.equal((await here.get('/session')).status, 200)
    await signIn('curl/8')
    t.equal((await here.delete('/sessions')).status, 204)
    t.equal((await here.get('/session')).status, 401)
  })

  t.test('owners see what was changed in their account, by the operator too, and nothing of others or of the operator’s', async t => {
    await deployment.run('accounts', 'set', 'alice', '--label', 'secret-label')
    await deployment.run('accounts', 'set', 'alice', '--plan', 'growth', '--label', 'other-label')
    await deployment.run('accounts', 'set', 'bob', '--plan', 'growth')
    const changes = await alice.get('/changes?limit=1000&from=2020-01-01')
    t.equal(checkResponse('/changes', 'get', changes), undefined)
    t.match(changes.json.changes[0], {
      ...{ action: 'account-changed', by: { kind: 'operator', name: '' } },
      ...{ before: { plan: 'core' }, after: { plan: 'growth' } },
    })
    const text = JSON.stringify(changes.json)
    t.notMatch(text, /label|"bob"|@.*host/)
    for (const account of new Set(changes.json.changes.map(({ account: { name } }: { account: { name: string } }) => name)))
      t.equal(account, 'alice')
    t.match((await alice.get('/changes?search=person-changed&limit=1&from=2020-01-01')).json, { changes: [{ action: 'person-changed' }] })
    t.match((await alice.get('/changes?month=2020-01')).json, { changeCount: 0, changes: [] })
    const { client: developer } = await add('dev', 'developer')
    t.match(await developer.get('/changes'), { status: 403 })
  })

  t.test('an owner deletes the account, its calls are refused at once, and an owner or the operator undoes that', async t => {
    const deleteAccount = (name: string, client = alice) => client.post('/account/delete', { name })
    const { client: developer } = await add('dev2', 'developer')
    t.match(await deleteAccount('alice', developer), { status: 403 })
    t.match(await deleteAccount('bob'), { status: 400, json: { error: { field: 'name' } } }, 'the name must be that of the account')
    t.match(await alice.post('/account/undelete'), { status: 200, json: { deleteAt: null } }, 'nothing to undo')
    const deleted = await deleteAccount('alice')
    t.equal(checkResponse('/account/delete', 'post', deleted), undefined)
    t.match((await alice.get('/account')).json, { state: 'deleted', suspended: /^20/, deleteAt: deleted.json.deleteAt })
    const mails = [await nextMail(), await nextMail()]
    t.same(mails.map(({ to }) => to).sort(), ['gil@example.org', 'new@example.org'], 'each owner is told')
    for (const { message } of mails) t.match(message, /owner has deleted the account alice\..*removed at 20/s)
    t.same((await deleteAccount('alice')).json, deleted.json, 'it keeps its time')
    t.match(await developer.post('/account/undelete'), { status: 403 })
    t.match(await alice.post('/account/undelete'), { status: 200, json: { deleteAt: null } })
    t.match((await alice.get('/account')).json, { state: 'active' })
    t.match((await changesOf('alice')).slice(-2), [
      { action: 'account-changed', by: { kind: 'person' }, after: { deleteAt: deleted.json.deleteAt } },
      { action: 'account-changed', by: { kind: 'person' }, after: { deleteAt: null, suspended: null } },
    ])
    await deleteAccount('alice')
    t.equal((await deployment.run('accounts', 'resume', 'alice')).code, 0)
    t.match((await alice.get('/account')).json, { state: 'active' }, 'the operator undoes it too')
  })

  t.test('what the operator has suspended or deleted, no owner resumes', async t => {
    const byOperator = { status: 409, json: { error: { code: 'by-operator' } } }
    const stateOf = async () => (await bob.get('/account')).json.state
    await deployment.run('accounts', 'suspend', 'bob')
    await bob.post('/account/delete', { name: 'bob' })
    t.equal(await stateOf(), 'deleted')
    t.match(await bob.post('/account/undelete'), { status: 200 })
    t.equal(await stateOf(), 'suspended', 'a suspension from before the deletion stays')
    await deployment.run('accounts', 'resume', 'bob')
    await deployment.run('accounts', 'delete', 'bob')
    t.match(await bob.post('/account/undelete'), byOperator)
    await deployment.run('accounts', 'resume', 'bob')
    for (const command of ['suspend', 'delete']) {
      await bob.post('/account/delete', { name: 'bob' })
      await deployment.run('accounts', command, 'bob')
      t.match(await bob.post('/account/undelete'), byOperator, command)
      await deployment.run('accounts', 'resume', 'bob')
    }
    t.equal(await stateOf(), 'active')
  })
})
