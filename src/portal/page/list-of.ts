/** What was typed, separated by commas. */
export const listOf = (value: FormDataEntryValue | null): readonly string[] =>
  String(value ?? '')
    .split(',')
    .map(each => each.trim())
    .filter(each => each !== '')
