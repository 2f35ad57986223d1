import { Notice } from '../components/controls.tsx'
import { Brand } from '../components/shell.tsx'
import { connectionProblem } from '../request.ts'
import { developerTexts } from './developer-texts.ts'

const text = developerTexts.signIn

/** In another tab: in this one, a link or a provider would load another page in place of what was typed. */
export const SignInAgain = () => (
  <main class="sign-in">
    <Brand />
    <h1>{text.title}</h1>
    <Notice text={connectionProblem.value?.text ?? text.ended} />
    <p>
      <a href="/" target="_blank" rel="noopener">
        {text.inAnotherTab}
      </a>
    </p>
  </main>
)
