import { useRef } from 'preact/hooks'
import type { KeyJson } from '../../key-settings.ts'
import { TextField } from './controls.tsx'
import { Dialog } from './dialog.tsx'
import { Form, splitList, typedText } from './form.tsx'
import { Restrictions } from './key-form.tsx'
import type { KeyOptions } from './key-form.tsx'
import { request } from '../request.ts'
import { texts } from '../texts.ts'

const text = texts.keys

export interface ChangeKeyProps extends KeyOptions {
  readonly apiKey: KeyJson
  /** For operators. */
  readonly setsVerify?: true
  onSaved(): void
  onClose(): void
}

/** What the key may do now, to be changed. */
export const ChangeKey = ({ apiKey, setsVerify, onSaved, onClose, ...options }: ChangeKeyProps) => {
  // What others change meanwhile is not changed back.
  const before = useRef(fieldsOf(apiKey)).current
  const verify = useRef(setsVerify && apiKey.verify).current
  const save = async (values: FormData): Promise<void> => {
    await request('PATCH', `/keys/${apiKey.id}`, { ...changeOf(before, values), ...(verify && verifyChangeOf(verify, values)) })
    onSaved()
    onClose()
  }
  const title = `${text.change}: ${apiKey.name || apiKey.hint}`
  return (
    <Dialog title={title} onClose={onClose}>
      <Form title={title} heading="none" button={text.save} send={save} onCancel={onClose}>
        {errorOf => (
          <>
            <TextField label={text.name} name="name" required={before.name !== ''} value={before.name} error={errorOf('name')} />
            <TextField label={text.project} name="project" help={text.projectHelp} value={before.project} error={errorOf('project')} />
            <Restrictions {...options} values={before} verify={verify} errorOf={errorOf} />
          </>
        )}
      </Form>
    </Dialog>
  )
}

const fieldsOf = ({ name, project, networks, methods, origins, ips, dailyCredits, rate, burst }: KeyJson) => ({
  ...{ name, project, networks: networks.join(', '), methods: methods.join(', '), origins: origins.join(', '), ips: ips.join(', ') },
  ...{ dailyCredits: String(dailyCredits ?? ''), rate: rate ?? '', burst: String(burst ?? '') },
})

type Fields = ReturnType<typeof fieldsOf>

const changeOf = (before: Fields, values: FormData): object => {
  const typed = (name: keyof Fields) => typedText(values, name)
  const isChanged = (name: keyof Fields) => typed(name) !== before[name]
  const lists = (['networks', 'methods', 'origins', 'ips'] as const).filter(isChanged)
  return {
    ...(isChanged('name') && { name: typed('name') }),
    ...(isChanged('project') && { project: typed('project') }),
    ...Object.fromEntries(lists.map(name => [name, splitList(values.get(name))])),
    ...(isChanged('dailyCredits') && { dailyCredits: Number(typed('dailyCredits')) }),
    // A rate replaces the burst too.
    ...((isChanged('rate') || isChanged('burst')) && {
      rate: typed('rate') || 'none',
      ...(typed('burst') !== '' && { burst: Number(typed('burst')) }),
    }),
  }
}

const verifyChangeOf = (before: KeyJson['verify'], values: FormData): object => {
  const chosen = values.getAll('verify')
  return chosen.length === before.length && before.every(wish => chosen.includes(wish)) ? {} : { verify: chosen }
}
