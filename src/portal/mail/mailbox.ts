// What e-mail addresses say of who reads them: for limits of what one person may cause.

export const domainOf = (email: string): string => email.slice(email.lastIndexOf('@') + 1)

/** One spelling of all addresses of a mailbox: `a+1@example.org` and `a+2@example.org` are one at most providers. */
export const toMailbox = (email: string): string => {
  const domain = domainOf(email)
  const name = email.slice(0, -domain.length - 1).replace(/(?<=.)\+.*$/, '')
  // Google says so of these; elsewhere names that differ in dots may be different people.
  return gmailDomains.has(domain) ? `${name.replaceAll('.', '')}@gmail.com` : `${name}@${domain}`
}

const gmailDomains: ReadonlySet<string> = new Set(['gmail.com', 'googlemail.com'])

/** The domain that somebody has registered: who has it makes as many subdomains and mailboxes as they like. */
export const registeredDomainOf = (email: string): string => {
  const labels = domainOf(email).split('.')
  return labels.slice(sharedSuffix.test(labels.slice(-2).join('.')) ? -3 : -2).join('.')
}

/** Below these, as below `co.uk`, many people have registered domains. */
const sharedSuffix = /^(ac|co|com|edu|gov|ne|net|or|org)\.[a-z]{2}$/

/** Anybody may have an address there, and the provider bounds how many one person gets. */
export const publicMailDomains: ReadonlySet<string> = new Set([
  ...gmailDomains,
  ...['outlook.com', 'hotmail.com', 'live.com', 'msn.com', 'icloud.com', 'me.com', 'mac.com', 'yahoo.com', 'aol.com', 'proton.me'],
  ...['protonmail.com', 'pm.me', 'fastmail.com', 'zoho.com', 'gmx.com', 'gmx.net', 'gmx.de', 'web.de', 'mail.ru', 'yandex.ru', 'qq.com'],
  ...['163.com', '126.com', 'naver.com'],
])
