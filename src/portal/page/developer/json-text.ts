// JSON as text: to parse and write it would change the digits of numbers beyond 2^53.

const tokenPattern = /"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s"[\]{}:,]+/g

const tokensOf = (json: string): readonly string[] => json.match(tokenPattern) ?? []

export const isJson = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

/** Without white space. The text must be JSON, here and below. */
export const compactJson = (json: string): string => tokensOf(json).join('')

export const indentJson = (json: string): string => {
  let depth = 0
  let indented = ''
  let last = ''
  const newLine = () => `\n${'  '.repeat(depth)}`
  for (const token of tokensOf(json)) {
    const isEmpty = (last === '[' && token === ']') || (last === '{' && token === '}')
    if (token === ']' || token === '}') {
      depth -= 1
      if (!isEmpty) indented += newLine()
    } else if (last === '[' || last === '{' || last === ',') indented += newLine()
    indented += token === ':' ? ': ' : token
    if (token === '[' || token === '{') depth += 1
    last = token
  }
  return indented
}

/** The items of a JSON array; none where the text is no array. */
export const itemsOf = (json: string): readonly string[] => {
  if (!isJson(json) || !json.trimStart().startsWith('[')) return []
  const items: string[] = []
  let depth = 0
  let item = ''
  for (const token of tokensOf(json)) {
    if (token === ']' || token === '}') depth -= 1
    const isEnd = depth === 0 || (depth === 1 && token === ',')
    if (isEnd && item !== '') items.push(item)
    item = isEnd ? '' : item + token
    if (token === '[' || token === '{') depth += 1
  }
  return items
}

const pythonByToken: Readonly<Record<string, string>> = { true: 'True', false: 'False', null: 'None', ':': ': ', ',': ', ' }

/** The same value in Python. */
export const toPython = (json: string): string =>
  tokensOf(json)
    .map(token => pythonByToken[token] ?? (token.startsWith('"') ? JSON.stringify(JSON.parse(token)) : token))
    .join('')
