//! Which Greylags a command is for, and who asks.
//!
//! In: what the command line and its variables say; files. Out: the Greylags. A token that could be read on its way is not sent.

use std::path::{Path, PathBuf};

use http::HeaderValue;

use super::fleet::Fleet;
use crate::cli::api::{Api, Target, Trust};
use crate::cli::{Exit, complain};

/// Where the admin API listens by default.
const USUAL: &str = "http://127.0.0.1:9901";

/// Which Greylags, and who asks.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Which Greylags")]
pub struct Whom {
    /// Where an admin API is: http://HOST:PORT, https://HOST:PORT or unix:/PATH; several times, or with commas, for several. Default: http://127.0.0.1:9901
    #[arg(
        long,
        global = true,
        value_name = "URL",
        value_delimiter = ',',
        env = "GREYLAG_CTL_ADMIN",
        hide_env_values = true
    )]
    admin: Vec<String>,
    /// A file that holds the token to show, and nothing else
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "GREYLAG_CTL_TOKEN_FILE",
        hide_env_values = true
    )]
    token_file: Option<PathBuf>,
    /// The authorities that may have signed an https API's certificate. Default: those that the system trusts
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The certificate to show to an https API
    #[arg(long, global = true, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// That certificate's private key
    #[arg(long, global = true, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Print what was answered, for programs
    #[arg(long, global = true)]
    json: bool,
}

impl Whom {
    /// The Greylags, at least one.
    ///
    /// # Errors
    /// How the command ends, once what is wrong was said.
    pub fn fleet(&self) -> Result<Fleet, Exit> {
        let usage = |what: String| {
            complain(&what);
            Exit::Usage
        };
        // A variable that is empty counts as none.
        let named = self.admin.iter().map(|url| url.trim());
        let mut named: Vec<&str> = named.filter(|url| !url.is_empty()).collect();
        if named.is_empty() {
            named.push(USUAL);
        }
        let token_file = self.token_file.as_deref();
        let token_file = token_file.filter(|file| !file.as_os_str().is_empty());
        let token = token_file.map(token).transpose()?;
        let trust = Trust {
            ca: self.ca.clone(),
            shown: self.cert.clone().zip(self.key.clone()),
        };
        let mut all: Vec<Api> = Vec::new();
        for url in named {
            let target: Target = url
                .parse()
                .map_err(|why| usage(format!("--admin: {why}")))?;
            if token.is_some() && !target.is_private() {
                return Err(usage(format!(
                    "--admin: {target} is another machine, and a token is sent there over https alone"
                )));
            }
            // Twice the same would change it twice.
            if !all.iter().any(|api| *api.target() == target) {
                all.push(Api::of(target, trust.clone(), token.clone()));
            }
        }
        Ok(Fleet {
            all,
            is_json: self.json,
        })
    }
}

// The field that shows a token.
fn token(file: &Path) -> Result<HeaderValue, Exit> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| {
        complain(&format_args!("{name}: {error}"));
        Exit::System
    })?;
    let token = text.trim();
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let field = HeaderValue::try_from(format!("Bearer {token}")).ok();
    let Some(mut field) = field.filter(|_| is_token) else {
        complain(&format_args!(
            "{name}: found no token; allowed is one word of ASCII, and nothing else"
        ));
        return Err(Exit::System);
    };
    field.set_sensitive(true);
    Ok(field)
}
