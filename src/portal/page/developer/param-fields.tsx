import type { PortalMember, PortalParam } from '../../portal-services.ts'
import { TextField } from '../components/controls.tsx'
import { Segments } from '../components/tabs.tsx'
import { buildTexts } from './build-texts.ts'
import { fillForm } from './try-state.ts'
import type { Typed } from './try-state.ts'
import { asText, fieldName, isCommon, isTypedAsJson, membersAsJson, membersOf } from './typed-params.ts'

const text = buildTexts.tryIt

interface ParamFieldsProps {
  readonly method: string
  readonly params: readonly PortalParam[]
  /** What the fields begin with. */
  readonly initial: Typed
  /** What they have now. */
  readonly typed: Typed
}

/** A field for each parameter, or for each member of an object. */
export const ParamFields = ({ method, params, ...values }: ParamFieldsProps) => (
  <>
    {params.map((param, i) =>
      param.members === undefined ? (
        <ParamField key={param.title} param={param} index={i} {...values} />
      ) : (
        <ObjectFields key={param.title} method={method} param={param} index={i} {...values} />
      ),
    )}
  </>
)

interface ParamProps extends Pick<ParamFieldsProps, 'initial'> {
  readonly param: PortalParam
  readonly index: number
}

const labelOf = ({ title, optional }: PortalParam): string => (optional ? `${title} (${text.optional})` : title)

/** An example that is none of the values that were typed. */
const exampleOf = ({ example }: PortalMember): string => `${text.example} ${asText(example)}`

const ParamField = ({ param, index, initial }: ParamProps) => (
  <TextField
    label={labelOf(param)}
    name={fieldName(index)}
    help={param.accepts}
    placeholder={exampleOf(param)}
    required={!param.optional}
    value={initial[fieldName(index)] ?? ''}
  />
)

const ways = (['fields', 'json'] as const).map(value => ({ value, label: text.ways[value] }))

/** As fields, or as JSON for those who have it. What is typed is carried over, where it can be. */
const ObjectFields = ({ method, param, index, initial, typed }: ParamProps & Pick<ParamFieldsProps, 'method' | 'typed'>) => {
  const isJson = isTypedAsJson(initial, index, param)
  const { members = [] } = param
  const json = typed[fieldName(index)] ?? ''
  const carried = isJson ? membersOf(json, param, index) : undefined
  const choose = (way: 'fields' | 'json'): void => {
    const isOwn = (name: string) => name === fieldName(index) || name.startsWith(`${fieldName(index)}.`)
    const others = Object.fromEntries(Object.entries(typed).filter(([name]) => !isOwn(name)))
    if (way === 'json') fillForm(method, { ...others, [fieldName(index)]: membersAsJson(param, typed, index) })
    else if (carried !== undefined) fillForm(method, { ...others, ...carried })
  }
  const field = (member: PortalMember) => (
    <TextField
      key={member.title}
      label={member.title}
      name={fieldName(index, member.title)}
      help={member.accepts}
      placeholder={exampleOf(member)}
      value={initial[fieldName(index, member.title)] ?? ''}
    />
  )
  const [common, rare] = [members.filter(each => isCommon(each, param)), members.filter(each => !isCommon(each, param))]
  return (
    <fieldset class="object">
      <legend>{labelOf(param)}</legend>
      <Segments label={`${param.title}: ${text.way}`} options={ways} value={isJson ? 'json' : 'fields'} onChange={choose} />
      {isJson ? (
        <>
          <ParamField param={param} index={index} initial={initial} />
          {carried === undefined && <p class="help">{text.onlyJson}</p>}
        </>
      ) : (
        <>
          <div class="pairs">{common.map(field)}</div>
          {rare.length > 0 && (
            <details open={rare.some(({ title }) => (initial[fieldName(index, title)] ?? '') !== '') || undefined}>
              <summary>{text.more}</summary>
              <div class="pairs">{rare.map(field)}</div>
            </details>
          )}
        </>
      )}
    </fieldset>
  )
}
