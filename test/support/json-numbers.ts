/**
 * The value of a JSON text with a text in place of each number: equal for two texts only if they have the same numbers, digit
 * for digit. Strings and names begin with `s`, to be told from numbers.
 */
export const withNumbersAsTexts = (text: string): unknown =>
  JSON.parse(
    text.replace(/"(?:[^"\\]|\\.)*"|-?\d[-+.\w]*/g, token => (token.startsWith('"') ? `"s${token.slice(1)}` : `"number ${token}"`)),
  )
