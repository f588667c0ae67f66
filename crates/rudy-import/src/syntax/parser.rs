//! Directives from tokens.

use std::sync::Arc;

use super::lexer::{Lexer, Token};
use super::{DEPTH_MAX, Directive, Place, SyntaxError};

/// Reads the directives of a file.
pub(crate) fn parse(file: &Arc<str>, text: &str) -> Result<Vec<Directive>, SyntaxError> {
    Parser { lexer: Lexer::new(file, text), depth: 0 }.directives()
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    depth: usize,
}

impl Parser<'_> {
    /// Reads directives up to the end of the block, or of the file.
    fn directives(&mut self) -> Result<Vec<Directive>, SyntaxError> {
        let mut directives = Vec::new();
        while let Some((token, place)) = self.lexer.next()? {
            match token {
                Token::Word(name) => directives.push(self.directive(name, place)?),
                Token::Close if self.depth > 0 => {
                    self.depth -= 1;
                    return Ok(directives);
                }
                // nginx rejects an empty directive, but files have them: two semicolons.
                Token::End => {}
                Token::Close | Token::Open => {
                    let brace = if token == Token::Open { '{' } else { '}' };
                    let problem = format!("unexpected `{brace}`: expected a directive");
                    return Err(SyntaxError { place, problem });
                }
            }
        }
        if self.depth > 0 {
            return Err(self.lexer.error("the file ends inside of a block: expected `}`"));
        }
        Ok(directives)
    }

    fn directive(&mut self, name: String, place: Place) -> Result<Directive, SyntaxError> {
        let mut args = Vec::new();
        loop {
            match self.lexer.next()? {
                Some((Token::Word(word), _)) => args.push(word),
                Some((Token::End, _)) => return Ok(Directive { name, args, block: None, place }),
                Some((Token::Open, _)) => {
                    let block = Some(self.block(&name)?);
                    return Ok(Directive { name, args, block, place });
                }
                Some((Token::Close, place)) => {
                    let problem = format!("unexpected `}}`: expected `;` after `{name}`");
                    return Err(SyntaxError { place, problem });
                }
                None => {
                    return Err(SyntaxError { place, problem: format!("`{name}` has no end: expected `;`") });
                }
            }
        }
    }

    fn block(&mut self, name: &str) -> Result<Vec<Directive>, SyntaxError> {
        if name.ends_with("_by_lua_block") {
            self.lexer.foreign_block()?;
            return Ok(Vec::new());
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.lexer.error(format!("blocks are nested deeper than {DEPTH_MAX}")));
        }
        self.directives()
    }
}
